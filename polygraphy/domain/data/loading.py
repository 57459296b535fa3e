"""Input data that were saved before, and what data loaders know of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.binding import resolve
from polygraphy.domain.asked import (
    ResultStore,
    holds_blobs,
    holds_pictures,
    iterate_blobs,
    iterate_pictures,
)
from polygraphy.domain.data.feed import in_shape
from polygraphy.domain.errors import InputError, ModelError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.domain.tensors.shapes import Shape, format_shape, is_dynamic_dim


def arrays_of(blobs: Mapping[str, bytes], metadata: TensorMetadata) -> dict[str, Any]:
    """Return one array per input of a model.

    Names are matched as outputs are paired. One dimension of a shape may be open: it follows from
    the number of bytes.

    Raises:
        InputError: an input has no bytes, or another number of them than it takes.
    """
    partners = {pair.name0: pair.name1 for pair in pair_outputs(metadata, blobs)}
    arrays = {}
    for name, (dtype, shape) in metadata.items():
        source = partners[name]
        if source is None:
            raise InputError(
                f"No data for input {name!r}: there is {', '.join(map(repr, blobs)) or 'nothing'}."
            )
        native = _native(name, dtype)
        if len(blobs[source]) % native.itemsize:
            raise InputError(
                f"Input {name!r} takes elements of {native.itemsize} bytes, but the data have"
                f" {len(blobs[source])} bytes."
            )
        elements = np.frombuffer(blobs[source], native)
        arrays[name] = elements.reshape(_static(name, shape, elements.size))
    return arrays


def _native(name: str, dtype: Any) -> np.dtype[Any]:
    entry = DataType.from_dtype(dtype)
    if entry is None or entry == DataType.STRING:
        raise InputError(f"Input {name!r} is of {entry or 'an unknown type'}, which bytes are not.")
    native: np.dtype[Any] = entry.numpy()
    return native


def _static(name: str, shape: Shape | None, size: int) -> list[int]:
    """Return the shape of so many elements."""
    if shape is None:
        return [size]
    known = [dim for dim in shape if not is_dynamic_dim(dim)]
    volume = math.prod(int(dim) for dim in known if isinstance(dim, int))
    open_dims = len(shape) - len(known)
    fits = size == volume if not open_dims else volume and size % volume == 0
    if not fits:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}, which {size} elements do not fill."
        )
    if open_dims > 1 and size != volume:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}: the bytes do not tell its"
            f" {open_dims} open dimensions.",
            hint="Save the data as .json or .npy, which keep shapes.",
        )
    filled = size // volume if volume else 0
    return [dim if isinstance(dim, int) and not is_dynamic_dim(dim) else filled for dim in shape]


ONLY_FIRST = (
    "There are several iterations of input data: only the first is used, because the model is run"
    " on the first data only."
)


def notes_of(loader: object) -> Sequence[str]:
    """Return the notes of a data loader: what it assumed so far, in words. None of one that takes
    none.
    """
    notes: Sequence[str] = getattr(loader, "notes", None) or ()
    return notes


class StreamingDataLoader:
    """Yields saved feed dictionaries, one iteration at a time, from files and folders one after
    another.

    Attributes:
        input_metadata: what the model asks for, from which bare bytes (files ``.bin`` and ``.raw``)
            take their data types and shapes; set before the first iteration is asked for.
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        allow_dirs: bool = True,
        preprocess: Mapping[str, Any] | None = None,
    ) -> None:
        """Name the files and folders.

        Args:
            paths: what to load; a picture, or a folder of them, is an iteration per picture.
            allow_dirs: whether folders are taken.
            preprocess: what is done to pictures, in this order: ``resize`` (width and height),
                ``scale``, ``mean`` and ``std`` (a number, or one per channel), ``layout`` (such as
                ``nchw``).

        Raises:
            UsageError: no path is given, one is a folder and `allow_dirs` is False, or there is no
                such preprocessing.
        """
        # Data that are made up do without.
        from polygraphy.domain.data.preprocessing import Preprocess

        self._preprocess = Preprocess.of(preprocess or {})
        self.paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
        if not self.paths:
            raise UsageError("There is no path to load input data from.")
        self.input_metadata: TensorMetadata | None = None
        for path in self.paths:
            if not allow_dirs and Path(path).is_dir():
                raise UsageError(f"{path} is a folder; a file is needed here.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Start at the first iteration; FileError at once when the first path is missing or
        damaged.
        """
        later = (self._opened_later(path) for path in self.paths[1:])
        if holds_blobs(self.paths[0]):
            return chain(self._blobs(self.paths[0]), *later)
        if holds_pictures(self.paths[0]):
            return chain(self._pictures(self.paths[0]), *later)
        opened = resolve(ResultStore).iterate(self.paths[0], dict)
        first = list(islice(opened, 1))  # Read now, so that a damaged file fails now.
        return chain(first, opened, *later)

    def _opened_later(self, path: str | Path) -> Iterator[dict[str, Any]]:
        if holds_blobs(path):
            yield from self._blobs(path)
        elif holds_pictures(path):
            yield from self._pictures(path)
        else:
            yield from resolve(ResultStore).iterate(path, dict)

    def _pictures(self, path: str | Path) -> Iterator[dict[str, Any]]:
        """Yield a feed dictionary per picture; InputError, which names the file, where the model
        takes no such pictures.
        """
        inputs = TensorMetadata() if self.input_metadata is None else self.input_metadata
        shapes = [shape for _, shape in inputs.values()]
        is_grey = len(shapes) == 1 and self._preprocess.channels_in(shapes[0]) == 1
        for file, arrays in iterate_pictures(path, self._preprocess.resize, is_grey):
            if [*arrays] != ["image"]:
                yield dict(arrays)
                continue
            array = self._preprocess(arrays["image"], file)
            if len(inputs) != 1:
                yield {"image": array}
                continue
            [(name, (_, shape))] = inputs.items()
            fitted = array if shape is None else in_shape(array, shape)
            if fitted is None or (fitted.ndim == 4 and len(fitted) > 1):  # A picture is one sample.
                raise InputError(
                    f"{file}: the picture has the shape {format_shape(array.shape)}, but input"
                    f" {name!r} takes {format_shape(shape)}.",
                    hint=self._preprocess.advice(shape),
                )
            yield {name: array}

    def _blobs(self, path: str | Path) -> Iterator[dict[str, Any]]:
        for blobs in iterate_blobs(path):
            if self.input_metadata is None:
                raise UsageError(
                    f"{path} holds bare bytes, whose data types and shapes only a model tells.",
                    hint="Set input_metadata.",
                )
            try:
                arrays = arrays_of(blobs, self.input_metadata)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
            yield arrays

    def __repr__(self) -> str:
        return f"StreamingDataLoader({[str(path) for path in self.paths]!r})"


def has_more(data_loader: Any, rest: Iterator[Any]) -> bool:
    """Return whether a data loader has more than the first iteration, as far as that is known
    without asking others for data that may overwrite the first.

    Args:
        data_loader: any data loader.
        rest: its iterator, from which the first was taken; one over files is asked for the second.

    Raises:
        FileError: a file that comes next is missing or damaged.
    """
    if isinstance(data_loader, StreamingDataLoader):
        return next(rest, None) is not None
    try:
        return len(data_loader) > 1
    except TypeError:
        return False


def describe_model(data_loader: Any, inputs: TensorMetadata, facts: Callable[[], Facts]) -> None:
    """Pass what a model asks for to a loader that wants to know: one with `input_metadata`, with
    `model_facts`, or with both. Others stay as they are.

    Args:
        data_loader: the loader.
        inputs: the data types and shapes of the inputs.
        facts: finds out what else the model tells, such as which indices are legal; called for a
            loader that wants it only.
    """
    if hasattr(data_loader, "input_metadata"):
        data_loader.input_metadata = TensorMetadata(inputs)
    if hasattr(data_loader, "model_facts"):
        data_loader.model_facts = facts()


def check_has_outputs(outputs: Sized) -> None:
    """Refuse a model that computes nothing.

    Raises:
        ModelError: there are no outputs.
    """
    if not len(outputs):
        raise ModelError(
            "The model has no outputs, so there is nothing to run.",
            hint="--onnx-outputs makes tensors of an ONNX model outputs.",
        )


def check_is_tensor(name: str, kind: str) -> None:
    """Refuse an input that arrays cannot be.

    Args:
        name: the input.
        kind: what it is, in ONNX's words: ``tensor``, ``seq``, ``map``, ``optional``, ...

    Raises:
        ModelError: it is no tensor.
    """
    if kind not in ("tensor", ""):
        words = {"seq": "sequence", "sequence": "sequence"}
        raise ModelError(
            f"Input {name!r} of the model is a {words.get(kind, kind.replace('_', ' '))}, not a"
            " tensor, so that no data can be given to it.",
            hint="Cut the part out that takes tensors, with polygraphy surgeon extract.",
        )
