"""Which nodes a backend refuses, where it refuses a model that is valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polygraphy.application.diagnose.case import Case, Feed
from polygraphy.application.diagnose.locating import Trace
from polygraphy.application.diagnose.rewriting import refusal_passes
from polygraphy.domain.diagnosis.culprit import Culprit, Remedy
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.search.ddmin import ddmin
from polygraphy.domain.search.outcome import Outcome
from polygraphy.ports.diagnosing import SuspectedParty


def refused(case: Case, party: SuspectedParty, known: Trace, message: str) -> Culprit | None:
    """Return the fewest nodes that a party refuses with the values that another computed; None
    where it refuses no part of the model.
    """
    held = {**known.values, **known.feed}
    nodes = case.model.nodes

    def part_of(chosen: Sequence[int]) -> tuple[Any, Feed] | None:
        part = case.model.part(chosen, held)
        asked = [value.name for value in part.graph.input]
        if any(name not in held for name in asked):
            return None
        return part, {name: held[name] for name in asked}

    def refuses(chosen: Sequence[int], *, plain: bool = False) -> bool:
        try:
            made = part_of(chosen)
            if made is None:
                return False
            party.load(made[0], plain=plain)(made[1])
        except BackendError:
            return True
        except PolygraphyException:
            return True
        return False

    end = _first(len(nodes), lambda count: refuses(range(count)))
    if end is None:
        return None
    start = end - (_first(end, lambda count: refuses(range(end - count, end))) or end)
    chosen = ddmin(
        range(start, end), lambda some: Outcome.BAD if some and refuses(some) else Outcome.GOOD
    )
    made = part_of(chosen)
    passes = refusal_passes(party, *made) if made is not None and party.passes else []
    healed = passes and _runs(case, party, known.feed, without=passes)
    plain = not refuses(chosen, plain=True) if party.rewrites else False
    command = None
    if healed:
        command = case.command(party, without=passes)
    elif plain and (healed := _runs(case, party, known.feed, plain=True)):
        command = case.command(party, plain=True)
    evidence = [
        f"{party.name} refuses the model: {message}",
        f"{known.party.name} runs it.",
        f"Alone, {'this node is' if len(chosen) == 1 else 'these nodes are'} refused, too.",
    ]
    if passes:
        evidence.append(f"Without {' and '.join(passes)}, {party.name} runs the whole model.")
    elif not plain and party.rewrites:
        evidence.append("It is refused with all rewrites switched off, too.")
    return Culprit(
        [nodes[index].name for index in chosen],
        next(iter(nodes[chosen[-1]].makes), None),
        party.name,
        "refusal",
        "+".join(passes) or None,
        evidence,
        Remedy(command, bool(healed)),
        nodes[chosen[-1]].op,
    )


def _first(most: int, holds: Callable[[int], bool]) -> int | None:
    """Return the smallest number from 1 for which something holds that holds for all larger ones;
    None where it does not hold for the largest.
    """
    if not holds(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _runs(case: Case, party: SuspectedParty, feed: Feed, **how: Any) -> bool:
    try:
        party.load(case.model.proto, **how)(feed)
    except PolygraphyException:
        return False
    return True
