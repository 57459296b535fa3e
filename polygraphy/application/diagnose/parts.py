"""Parts of a model: the one place that cuts them, feeds them, and lets a backend run them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Feed, Values
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import errors
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.ports.diagnosing import Compute, SuspectedParty, change_node
from polygraphy.ports.editing import OpenModel
from polygraphy.ports.running import input_metadata


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
    """Return the size in bytes of each tensor that a model computes from some data, if it is
    known."""
    layers = model.layers({name: np.shape(value) for name, value in feed.items()})
    return {
        name: size
        for layer in layers
        for name, size in layer.makes.items()
        if name and size is not None
    }


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
