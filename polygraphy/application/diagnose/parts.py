"""Parts of a model: the one place that cuts them, feeds them, and lets a backend run them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Feed, Values
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes, errors
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.model.regions import region_before
from polygraphy.ports.diagnosing import Compute, SuspectedParty, change_node
from polygraphy.ports.editing import OpenModel, open_model
from polygraphy.ports.running import input_metadata

_GROWING = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "Tile": (1,),
    "Upsample": (1,),
}
"""By operator whose result may be much larger than its data: the inputs that determine the size."""
_MOST_OPERANDS = 6
"""Most such inputs that are computed for one changed part. Chosen, not measured."""
_KNOWN = "//known"
"""Suffix of a constant in place of an input that was computed."""


@frozen
class Submodel:
    """Some nodes of a model, cut out as a separate model.

    Attributes:
        model: the ``onnx.ModelProto``.
        feed: the values of its inputs.
        is_guess: whether a node was changed on trial, so that a backend may raise anything.
    """

    model: Any
    feed: Feed
    is_guess: bool = False

    def load(
        self, party: SuspectedParty, *, plain: bool = False, without: Collection[str] = ()
    ) -> Compute:
        """Return the function that runs the part in a backend; see `SuspectedParty.load`.

        Raises:
            BackendError: it refuses the part.
        """
        if not self.is_guess:
            return party.load(self.model, plain=plain, without=without)
        with foreign_errors():
            compute = party.load(self.model, plain=plain, without=without)

        def run(feed: Feed) -> dict[str, Any]:
            """Return the outputs of the part; raise BackendError for any failure."""
            with foreign_errors():
                return compute(feed)

        return run

    def load_first(self, parties: Sequence[SuspectedParty]) -> Compute:
        """Return a function that runs the part without rewrites, in the first backend that accepts
        it.

        Raises:
            BackendError: none does.
        """
        for party in parties[:-1]:
            with suppress(BackendError):
                return self.load(party, plain=True)
        return self.load(parties[-1], plain=True)

    def run(
        self, party: SuspectedParty, *, plain: bool = False, without: Collection[str] = ()
    ) -> Values:
        """Return the outputs that a backend computes.

        Raises:
            BackendError: it refuses the part.
        """
        return self.load(party, plain=plain, without=without)(self.feed)

    def change(self, output: str, variant: Variant, *, asks: bool = False) -> Submodel:
        """Return the part with one node changed; if a backend rejects it, that raises BackendError.

        Args:
            output: a tensor that the node computes.
            variant: the other node.
            asks: whether the weight of the variant becomes an input, the last one.

        Raises:
            BackendError: the node cannot be written.
        """
        with foreign_errors():
            model = change_node(self.model, output, variant, asks=asks)
            feed = self.feed
            if asks:
                *_, name = input_metadata(model)
                [weight] = variant.weights.values()
                feed = {**feed, name: weight}
            return Submodel(model, feed, is_guess=True)


def tensor_bytes(model: OpenModel, feed: Feed) -> int:
    """Return the size in bytes of the tensors that a model computes from some data.
    Tensors of unknown size are ignored."""
    return sum(tensor_sizes(model, feed).values())


def tensor_sizes(model: OpenModel, feed: Feed) -> dict[str, int]:
    """Return the size in bytes of each tensor that a model computes from some data,
    if it is known."""
    layers = model.layers({name: np.shape(value) for name, value in feed.items()})
    return {
        name: size
        for layer in layers
        for name, size in layer.makes.items()
        if name and size is not None
    }


def sizes_after_change(part: Submodel, output: str, party: SuspectedParty) -> dict[str, int]:
    """Return the size in bytes of each tensor of a changed part, if it is known;
    a size that the changed node determines, such as that of a Pad with other pads, is computed
    first.

    Args:
        part: the part.
        output: a tensor that the changed node computes.
        party: the backend that computes sizes.
    """
    model = open_model(part.model)
    sizes = tensor_sizes(model, part.feed)
    for _ in range(_MOST_OPERANDS):
        graph = model.graph
        changed = graph.producers.get(output)
        operands = (
            (node, name, region)
            for node in graph.nodes
            if not all(name in sizes for name in node.makes)
            for position in _GROWING.get(node.op, ())
            for name in node.inputs[position : position + 1]
            if name in graph.producers and name not in graph.constants
            for region in (region_before(graph, name, part.feed),)
            if changed in region
        )
        if (operand := next(operands, None)) is None:
            break
        node, name, region = operand
        try:
            value = cut_part(model, region, part.feed, [name]).run(party)[name]
            constant = name + _KNOWN
            inputs = tuple(constant if read == name else read for read in node.inputs)
            change = changes.other_input(node.op, name, constant)
            variant = Variant("structure", change, evolve(node, inputs=inputs), {constant: value})
            part = part.change(node.makes[0], variant)
        except PolygraphyException:
            break
        model = open_model(part.model)
        sizes = tensor_sizes(model, part.feed)
    return sizes


def cut_part(
    model: OpenModel,
    nodes: Collection[int],
    values: Values,
    outputs: Collection[str] | None = None,
) -> Submodel:
    """Return a part with some nodes of a model, and the values that they read.

    Args:
        model: the model.
        nodes: their positions.
        values: by tensor.
        outputs: the tensors that it computes (default: all that other nodes or the outputs need).

    Raises:
        ModelError: they cannot be cut.
        InputError: a value is missing.
    """
    return feed_part(model.part(nodes, values, outputs), values)


def feed_part(part: Any, values: Values) -> Submodel:
    """Return a part for an ``onnx.ModelProto``, with the values of its inputs.

    Raises:
        InputError: one of them is missing.
    """
    names = [*input_metadata(part)]
    for name in names:
        if name not in values:
            raise errors.unknown_value(name)
    return Submodel(part, {name: values[name] for name in names})


def compute_part(
    model: OpenModel,
    nodes: Collection[int],
    values: Values,
    party: SuspectedParty,
    outputs: Collection[str] | None = None,
    *,
    plain: bool = True,
) -> Values:
    """Return the outputs that a backend computes for a part of a model.
    The result is empty if the part cannot be cut, or the backend refuses it.

    Args:
        model: the model.
        nodes: the positions of the nodes of the part.
        values: by tensor, what they read.
        party: the backend.
        outputs: the tensors that are computed; see `cut_part`.
        plain: whether the backend rewrites nothing.
    """
    try:
        return cut_part(model, nodes, values, outputs).run(party, plain=plain)
    except PolygraphyException:
        return {}
