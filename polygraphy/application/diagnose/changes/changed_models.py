"""A model with changed nodes, loaded for each of several input sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from polygraphy.application.diagnose.branches import take_branches
from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.change_search import output_name
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.editing import OpenModel


def load_changed_models(
    case: Case,
    changed: Sequence[Variant],
    party: SuspectedParty,
    sets: Iterable[tuple[Feed, Values]],
) -> Iterator[tuple[Compute, Feed, Values]]:
    """Yield the function that computes the model with changed nodes,
    for each input set with its saved results. Other branches of an If node may run on other sets.

    Args:
        case: the model.
        changed: the changed nodes.
        party: the backend that runs it.
        sets: the input sets, with what was saved for them.

    Raises:
        PolygraphyException: the backend refuses the changed model.
    """
    loaded: dict[int, Compute] = {}
    whole = evolve(case, model=case.whole)
    for feed, saved in sets:
        taken = take_branches(whole, feed, saved)
        model = case.model if taken is whole else taken.model
        if id(model) not in loaded:
            loaded = {id(model): _change(case, model, changed, feed).load(party)}
        yield loaded[id(model)], feed, saved


def _change(case: Case, model: OpenModel, changed: Sequence[Variant], feed: Feed) -> Submodel:
    """Return a model with those of the changed nodes of a case that it has."""
    part, graph = Submodel(model.proto, feed), case.model.graph
    for variant in changed:
        name = output_name(variant)
        if model is case.model or graph.nodes[graph.producers[name]] in model.graph.nodes:
            part = part.change(name, variant)
    return part
