"""Finds out whether a model would work in half precision, and what has to stay in float32."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
from attrs import field, frozen

from polygraphy.application.run.feeding import Feeds
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.diagnosis.closeness import OutputError, output_error
from polygraphy.domain.diagnosis.half import HalfCulprit, culprits_among, first_invalid, ranked
from polygraphy.domain.diagnosis.headroom import NodeLoss, Range, worst_of
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import NarrowModel, NarrowModels
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import FactFinder

_TYPES: Mapping[str, tuple[DataTypeEntry, float]] = {
    "fp16": (DataType.FLOAT16, 1e-2),
    "bf16": (DataType.BFLOAT16, 1e-1),
}
"""The types, and how far outputs may be off by default: about ten times their spacing."""

Feed = Mapping[str, Any]


@frozen
class HalfPrecision:
    """What half precision does to a model. True where it works.

    Attributes:
        verdict: ``agree`` where it works, ``fault`` where nodes have to stay in float32,
            ``ill-conditioned`` where rounding the inputs alone changes the outputs as much, or
            ``inconclusive``.
        before: how far the outputs are off with every node in half precision.
        after: how far they are off with the nodes of `kept` in float32.
        kept: the fewest nodes that have to stay in float32.
        culprits: those of them that are at fault, and why.
        losses: what each node loses alone.
        checks: how many sets of nodes were tried.
        feeds: how many sets of input data there were.
    """

    verdict: str
    before: OutputError
    after: OutputError = field(factory=OutputError)
    kept: Sequence[str] = ()
    culprits: Sequence[HalfCulprit] = ()
    losses: Sequence[NodeLoss] = ()
    checks: int = 0
    feeds: int = 0

    def __bool__(self) -> bool:
        return self.verdict == "agree"


def try_half_precision(
    model: Any,
    dtype: str = "fp16",
    *,
    data_loader: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> HalfPrecision:
    """Compute a model in half precision, rounding at every operator, and if outputs are off, find
    the fewest nodes that have to stay in float32.

    Args:
        model: an ``onnx.ModelProto``, or a loader that makes one; it stays as it is.
        dtype: ``fp16`` or ``bf16``.
        data_loader: where the input data come from (default: generated, of both signs, from several
            seeds).
        rtol: how far outputs may be off, as a fraction of each element (default: 0.01 in fp16, 0.1
            in bf16).
        atol: how far they may be off absolutely (default: `rtol` times the root mean square of the
            output; times 1 where it is between -1 and 1 by nature).

    Raises:
        UnknownNameError: there is no such type.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run it.
        UsageError: there are no data.
    """
    entry = casting(dtype)
    usual = _TYPES[dtype][1]
    opened = resolve(NarrowModels).open(model, entry)
    tolerance = _Tolerance(usual if rtol is None else rtol, atol, opened.bounded)
    trial = _Trial(opened, tolerance, list(_feeds(model, opened.inputs, data_loader)))
    return trial.result(Range.of(entry), entry)


def casting(dtype: str) -> DataTypeEntry:
    """Return the type that a name of the command line stands for.

    Raises:
        UnknownNameError: there is no such type.
    """
    if dtype not in _TYPES:
        raise UnknownNameError("Data type", dtype, _TYPES)
    return _TYPES[dtype][0]


def rank_nodes(model: Any, dtype: str = "fp16", *, data_loader: Any = None) -> list[str]:
    """Return the nodes of a model that can compute in half precision, those first that lose most.

    Args:
        model: an ``onnx.ModelProto``, or a loader that makes one; it stays as it is.
        dtype: ``fp16`` or ``bf16``.
        data_loader: where the input data come from; see `try_half_precision`.

    Raises:
        UnknownNameError: there is no such type.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run it.
    """
    entry = casting(dtype)
    opened = resolve(NarrowModels).open(model, entry)
    feeds = _feeds(model, opened.inputs, data_loader)
    losses = worst_of(opened.measure(feed)[1] for feed in feeds)
    return ranked(losses, opened.nodes, opened.users, Range.of(entry))


@frozen
class _Tolerance:
    rtol: float
    atol: float | None
    bounded: Collection[str]

    def error(self, exact: Mapping[str, Any], made: Mapping[str, Any]) -> OutputError:
        return output_error(exact, made, rtol=self.rtol, atol=self.atol, bounded=self.bounded)


class _Trial:
    """Runs a model in half precision on all data, with some of its nodes in float32."""

    def __init__(self, model: NarrowModel, tolerance: _Tolerance, feeds: Sequence[Feed]) -> None:
        self._model = model
        self._tolerance = tolerance
        self._feeds = feeds
        measured = [model.measure(feed) for feed in feeds]
        self._exact = [outputs for outputs, _ in measured]
        self._losses = worst_of(losses for _, losses in measured)
        self._order = list(range(len(feeds)))
        self._checks = 0

    def result(self, limits: Range, dtype: DataTypeEntry) -> HalfPrecision:
        """Return what half precision does."""
        if any(_is_invalid(outputs) for outputs in self._exact):
            invalid = first_invalid(self._losses)
            if invalid is not None:
                return HalfPrecision("fault", OutputError(), culprits=[invalid])
        errors = [self._error(index, ()) for index in range(len(self._feeds))]
        before = max(errors, key=lambda error: error.excess)
        facts: dict[str, Any] = {"losses": self._losses, "feeds": len(self._feeds)}
        if before.is_tolerable:
            return HalfPrecision("agree", before, before, checks=1, **facts)
        self._order.sort(key=lambda index: -errors[index].excess)
        if self._is_ill_conditioned(dtype):
            return HalfPrecision("ill-conditioned", before, before, checks=2, **facts)
        order = ranked(self._losses, self._model.nodes, self._model.users, limits)
        kept = smallest_good_set(order, self._test, is_ranked=True)
        if kept is None:
            return HalfPrecision("inconclusive", before, before, checks=self._checks, **facts)
        after = max(
            (self._error(index, kept) for index in range(len(self._feeds))),
            key=lambda error: error.excess,
        )
        in_order = [name for name in self._model.nodes if name in set(kept)]
        found = culprits_among(in_order, self._losses, self._model.users, limits)
        verdict = "fault" if after.is_tolerable else "inconclusive"
        return HalfPrecision(verdict, before, after, in_order, found, checks=self._checks, **facts)

    def _test(self, keep: Sequence[str]) -> Outcome:
        """Return whether the outputs are close enough, asking first the data that fail most."""
        self._checks += 1
        for index in self._order:
            if not self._error(index, keep).is_tolerable:
                return Outcome.BAD
        return Outcome.GOOD

    def _error(self, index: int, keep: Collection[str]) -> OutputError:
        made = self._model.run(self._feeds[index], keep)
        return self._tolerance.error(self._exact[index], made)

    def _is_ill_conditioned(self, dtype: DataTypeEntry) -> bool:
        """Return whether float32 itself does not keep the outputs when the inputs are rounded."""
        index = self._order[0]
        rounded = {name: _rounded(value, dtype) for name, value in self._feeds[index].items()}
        if all(np.isfinite(value).all() for value in rounded.values() if value.dtype.kind == "f"):
            made = self._model.run(rounded, self._model.nodes)
            return not self._tolerance.error(self._exact[index], made).is_tolerable
        return False


def _is_invalid(outputs: Mapping[str, Any]) -> bool:
    return any(
        array.dtype.kind == "f" and not np.isfinite(array).all() for array in outputs.values()
    )


def _rounded(value: Any, dtype: DataTypeEntry) -> Any:
    array = np.asarray(value)
    with np.errstate(over="ignore"):
        return array.astype(dtype.numpy()).astype(array.dtype) if array.dtype.kind == "f" else array


def _feeds(model: Any, inputs: TensorMetadata, data_loader: Any) -> Iterator[Feed]:
    """Yield the data; those that are generated are of several seeds, and of both signs."""
    signed = {
        name: (-1.0, 1.0)
        for name, meta in inputs.items()
        if meta.dtype is not None and meta.dtype.is_floating
    }
    loaders = [data_loader]
    if data_loader is None:
        loaders = [DataLoader(iterations=2)]
        loaders += [DataLoader(seed=3, val_range=signed)] if signed else []
    told: set[str] = set()
    for loader in loaders:
        feeds = Feeds(loader, resolve(Console), told)
        feeds.describe_model(inputs, partial(resolve(FactFinder).find, model))
        yield {name: feeds.current[name] for name in inputs}
        while feeds.advance():
            yield {name: feeds.current[name] for name in inputs}


def convert_command(model: str, dtype: str, keep: Sequence[str]) -> str:
    """Return the command that converts a model so that it works."""
    path = PurePath(model)
    words = ["polygraphy", "convert", model, f"--{'fp-to-fp16' if dtype == 'fp16' else 'to-bf16'}"]
    words += ["--cast-keep-nodes", *keep] if keep else []
    return shlex.join([*words, "-o", f"{path.stem}_{dtype}.onnx"])
