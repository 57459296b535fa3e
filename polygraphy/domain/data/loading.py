"""Input data that were saved before, what data loaders know of a model, and data on their way into
it: checked against what it asks for, and fitted to it where that loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from copy import deepcopy
from itertools import chain, islice, permutations
from math import prod
from pathlib import Path
from typing import Any

from polygraphy.binding import resolve
from polygraphy.domain.errors import (
    DataTypeConversionException,
    InputError,
    ModelError,
    UsageError,
    close_matches,
)
from polygraphy.domain.ports import (
    ResultStore,
    holds_blobs,
    holds_pictures,
    iterate_blobs,
    iterate_pictures,
)
from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import with_article
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.domain.tensors.shapes import Shape, fits, format_shape, is_dynamic_dim


def cast_if_representable(array: Array, wanted: DataTypeEntry) -> Array | None:
    """Return an array in another data type; None if a value would be lost.

    A floating-point type may round, but must be able to represent the magnitude of every finite
    value, and keep NaN and infinity. An integer type must represent every value exactly. An
    imaginary part is never dropped.
    """
    target = wanted.numpy()
    if array.dtype.kind == "c" and wanted.kind != "complex":
        if np.any(array.imag):
            return None
        array = array.real
    with np.errstate(all="ignore"):
        cast = array.astype(target)
        if wanted.is_floating:
            return cast if _is_in_range(array, cast, target) else None
        if wanted.kind == "complex":
            return cast
        return cast if _is_exact(array, cast) else None


def _is_in_range(array: Array, cast: Array, target: np.dtype[Any]) -> bool:
    """Return whether a cast keeps NaN and infinities, and all finite elements are in the range
    of the type.
    """
    array_values, cast_values = array.astype(np.float64), cast.astype(np.float64)
    finite = np.isfinite(array_values)
    if not np.array_equal(cast_values[~finite], array_values[~finite], equal_nan=True):
        return False
    # A type without infinity saturates, so the result does not show an overflow; the value does.
    largest = _largest(target)
    return bool(
        np.isfinite(cast_values[finite]).all() and (np.abs(array_values[finite]) <= largest).all()
    )


def _largest(target: np.dtype[Any]) -> float:
    """Return the largest finite value of a data type; infinity for NumPy's own types."""
    if target.kind == "f":
        return np.inf  # NumPy's own types overflow to infinity, which is visible in the result.
    import ml_dtypes

    limits: Any = ml_dtypes.finfo
    return float(limits(target).max)


def _is_exact(array: Array, cast: Array) -> bool:
    """Return whether a cast changed no element."""
    if array.dtype.kind in "iub" or cast.dtype.kind in "iub":
        back = cast.astype(array.dtype)
        same_sign = np.array_equal(_negative_elements(cast), _negative_elements(array))
        return same_sign and np.array_equal(back, array)
    return np.array_equal(cast.astype(np.float64), array.astype(np.float64))


def _negative_elements(array: Array) -> Array:
    """Return a boolean mask of the negative elements of an array."""
    negative: Array = np.zeros(array.shape, bool) if array.dtype.kind in "ub" else array < 0
    return negative


_MAX_RANK_TO_PERMUTE = 6


def own_copy(data: Any) -> Any:
    """Return a private copy of the data.

    Arrays and tensors keep their type, except views of memory, on the host or a device, which
    become NumPy arrays. Numbers, which may be addresses of device memory, and objects that cannot
    be copied are returned unchanged.
    """
    if isinstance(data, np.ndarray):
        return deepcopy(data) if data.dtype.hasobject else data.copy()
    if data is None or isinstance(data, (int, float, complex, str, bytes, np.generic)):
        return data
    if isinstance(data, memoryview):
        return np.array(data)
    if hasattr(data, "__cuda_array_interface__") and hasattr(data, "numpy"):
        return data.clone() if hasattr(data, "clone") else data.numpy()
    for method in ("clone", "copy"):  # PyTorch tensors have `clone`, other arrays have `copy`.
        if hasattr(data, "dtype") and hasattr(data, method):
            return getattr(data, method)()
    try:
        return deepcopy(data)
    except Exception:  # The data may be an instance of a user's class.
        return data


def check_feed(feed_dict: Mapping[str, Any], metadata: TensorMetadata) -> None:
    """Raise InputError if names, data types or shapes of a feed dictionary do not fit the inputs.

    Integers stand for device addresses; only their names are checked.

    Raises:
        InputError: something does not fit; it names the input, what was expected and what was
            found.
    """
    if not isinstance(feed_dict, Mapping):
        raise InputError(
            "The data for an inference must be a dictionary from input names to arrays, not a"
            f" {type(feed_dict).__name__}.",
            hint=f"Pass {{{', '.join(f'{name!r}: ...' for name in metadata)}}}.",
        )
    _check_names(feed_dict, metadata)
    for name, array in feed_dict.items():
        if isinstance(array, int):
            continue
        _check_array(name, array)
        dtype, shape = metadata[name]
        array_dtype = _dtype_of(array)
        wanted = DataType.from_dtype(dtype)
        if wanted is not None and array_dtype != wanted:
            raise InputError(
                f"Input {name!r} must have data type {wanted}, but the data has the unexpected"
                f" dtype {array_dtype}."
            )
        if not fits(array.shape, shape):
            raise _shape_error(name, array, shape)


def _check_array(name: str, array: Any) -> None:
    """Raise InputError if the data for an input are not numbers in native byte order."""
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise InputError(
            f"The data for input {name!r} must be an array, not"
            f" {with_article(type(array).__name__)}.",
            hint="Convert it with numpy.asarray.",
        )
    if not getattr(array.dtype, "isnative", True):
        raise InputError(
            f"The data for input {name!r} is not in the byte order of this machine"
            f" ({array.dtype}).",
            hint="Convert it with array.astype(array.dtype.newbyteorder('=')).",
        )


def _check_names(feed_dict: Mapping[str, Any], metadata: TensorMetadata) -> None:
    """Raise InputError if the names of data and inputs differ."""
    missing = [name for name in metadata if name not in feed_dict]
    extra = [name for name in feed_dict if name not in metadata]
    if not missing and not extra:
        return
    facts = []
    if missing:
        facts.append(
            f"The following inputs were not found in the data: {', '.join(map(repr, missing))}."
        )
    if extra:
        facts.append(f"Extra inputs in the data: {', '.join(map(repr, extra))}.")
    hints = [
        f"Did you mean {matches[0]!r} instead of {name!r}?"
        for name in extra
        if (matches := close_matches(name, missing))
    ]
    raise InputError(
        f"The data does not fit the model, which expects {list(metadata)}. {' '.join(facts)}",
        hint=" ".join(hints),
    )


def _dtype_of(array: Any) -> Any:
    """Return our data type for that of an array; its own data type if we have none."""
    try:
        return DataType.from_dtype(array.dtype)
    except DataTypeConversionException:
        return array.dtype


def fit_feed(
    feed_dict: Mapping[str, Any], metadata: TensorMetadata
) -> tuple[dict[str, Any], list[str]]:
    """Return data adapted to the inputs of a model, and notes about the changes.

    Names are matched as outputs are paired; entries that match no input are dropped. Data types are
    cast if no value leaves the range, and shapes are transposed or reshaped if the number of
    elements allows it.

    Returns:
        The fitted data, and notes about what was changed.

    Raises:
        InputError: something cannot be fitted.
    """
    if _fits_already(feed_dict, metadata):
        return dict(feed_dict), []
    partners = {pair.name0: pair.name1 for pair in pair_outputs(metadata, feed_dict)}
    fitted: dict[str, Any] = {}
    notes: list[str] = []
    for name, (dtype, shape) in metadata.items():
        source = partners[name]
        if source is None:
            _check_names(feed_dict, metadata)
            raise InputError(f"No data for input {name!r}.")
        if source != name:
            notes.append(f"Input {name!r} uses the data named {source!r}.")
        array = feed_dict[source]
        if isinstance(array, int):
            fitted[name] = array
            continue
        if isinstance(array, np.ndarray) and not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        _check_array(name, array)
        array = _fit_dtype(name, array, dtype, notes)
        fitted[name] = _fit_shape(name, array, shape, notes)
    return fitted, notes


def fit_with_notes(
    feed_dict: Mapping[str, Any],
    metadata: TensorMetadata,
    note: Callable[[str], None],
    seen: set[str],
    name: str = "The model",
) -> tuple[dict[str, Any], bool]:
    """Return data adapted to the inputs of a model, and whether they were changed; see `fit_feed`.

    Args:
        feed_dict: the data.
        metadata: the inputs.
        note: receives each note about a change.
        seen: the notes so far, which are not repeated.
        name: the subject of the notes.
    """
    fitted, notes = fit_feed(feed_dict, metadata)
    for text in notes:
        if text not in seen:
            seen.add(text)
            note(f"{name} | {text}")
    return fitted, bool(notes)


def _fits_already(feed_dict: Mapping[str, Any], metadata: TensorMetadata) -> bool:
    """Return whether a feed has the inputs, types and shapes of the metadata."""
    try:
        check_feed(feed_dict, metadata)
    except InputError:
        return False
    return True


def _fit_dtype(name: str, array: Any, dtype: Any, notes: list[str]) -> Any:
    """Return an array cast to a data type, with a note on the cast.
    Raise InputError if that loses values.
    """
    wanted = DataType.from_dtype(dtype)
    array_dtype = _dtype_of(array)
    if wanted is None or array_dtype == wanted or not isinstance(array, np.ndarray):
        return array
    if DataType.STRING in (wanted, array_dtype):
        raise InputError(
            f"Input {name!r} must have data type {wanted}, but the data has {array_dtype}."
        )
    cast = cast_if_representable(array, wanted)
    if cast is None:
        raise InputError(
            f"Input {name!r} must have data type {wanted}, but the data has {array_dtype} and"
            " values"
            f" that {wanted} cannot hold."
        )
    notes.append(f"Input {name!r} was cast from {array_dtype} to {wanted}.")
    return cast


def _fit_shape(name: str, array: Any, shape: Shape | None, notes: list[str]) -> Any:
    """Return an array reshaped to a shape, with a note if that changed it."""
    if shape is None:
        return array
    fitted = fit_shape(array, shape)
    if fitted is None:
        raise _shape_error(name, array, shape)
    is_open = bool(shape) and is_dynamic_dim(shape[0]) and array.ndim == len(shape)
    if is_open and array.shape[0] == 1 < fitted.shape[0]:
        raise InputError(
            f"Input {name!r} must have shape {format_shape(shape)}, but the data has"
            f" {format_shape(array.shape)}, which would turn one sample into {fitted.shape[0]}.",
            hint="Use data of that shape. If the data contains several samples, reshape it.",
        )
    if fitted is not array:
        notes.append(f"Input {name!r} was reshaped from {array.shape} to {fitted.shape}.")
    return fitted


def _shape_error(name: str, array: Any, shape: Shape | None) -> InputError:
    """Return the InputError for an array that does not fit the shape of an input."""
    return InputError(
        f"Shape mismatch: input {name!r} must have shape {format_shape(shape or ())}, but the data"
        f" has the incompatible shape {format_shape(array.shape)}.",
        hint=hint_for_fixed_sizes(array.shape, shape),
    )


def hint_for_fixed_sizes(shape: Sequence[int], fixed: Shape | None) -> str:
    """Return the advice for a shape that differs only in sizes that the model fixes;
    empty if it has a different rank."""
    if fixed is None or len(shape) != len(fixed):
        return ""
    return (
        "To change fixed sizes of an ONNX model, use polygraphy surgeon sanitize"
        " --override-input-shapes."
    )


def fit_shape(array: Any, shape: Shape) -> Any:
    """Return an array transposed, or else reshaped, to a shape.
    It is unchanged if it fits, None if it cannot.
    """
    if fits(array.shape, shape):
        return array
    fitted = _try_transpose(array, shape)
    return _try_reshape(array, shape) if fitted is None else fitted


def _try_transpose(array: Any, shape: Sequence[Any]) -> Any:
    """Return an array with its axes permuted to fit a shape; None if no order fits."""
    if array.ndim != len(shape) or array.ndim > _MAX_RANK_TO_PERMUTE:
        return None
    for axes in permutations(range(array.ndim)):
        if fits([array.shape[axis] for axis in axes], shape):
            # PyTorch's `transpose` swaps two dimensions.
            return getattr(array, "permute", array.transpose)(axes)
    return None


def _try_reshape(array: Any, shape: Sequence[Any]) -> Any:
    """Return an array reshaped to fit a shape; None if the number of elements differs."""
    dynamic = [index for index, dim in enumerate(shape) if is_dynamic_dim(dim)]
    if len(dynamic) > 1:
        return None
    size, count = prod(array.shape), prod(dim for dim in shape if not is_dynamic_dim(dim))
    if (dynamic and (not count or size % count)) or (not dynamic and size != count):
        return None
    return array.reshape(
        [size // count if index in dynamic else dim for index, dim in enumerate(shape)]
    )


def arrays_of(blobs: Mapping[str, bytes], metadata: TensorMetadata) -> dict[str, Any]:
    """Return one array for each model input.

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
                f"No data for input {name!r}; found {', '.join(map(repr, blobs)) or 'nothing'}."
            )
        native = _native_dtype(name, dtype)
        if len(blobs[source]) % native.itemsize:
            raise InputError(
                f"Input {name!r} has elements of {native.itemsize} bytes, but the data has"
                f" {len(blobs[source])} bytes."
            )
        elements = np.frombuffer(blobs[source], native)
        arrays[name] = elements.reshape(_static_shape(name, shape, elements.size))
    return arrays


def _native_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """Return the NumPy data type of an input; raise InputError for text and unknown types."""
    entry = DataType.from_dtype(dtype)
    if entry is None or entry == DataType.STRING:
        raise InputError(
            f"Input {name!r} has {entry or 'an unknown type'}, which cannot be read from raw bytes."
        )
    native: np.dtype[Any] = entry.numpy()
    return native


def _static_shape(name: str, shape: Shape | None, size: int) -> list[int]:
    """Return the shape of an input for data with `size` elements."""
    if shape is None:
        return [size]
    dims = [dim for dim in shape if not is_dynamic_dim(dim)]
    volume = math.prod(int(dim) for dim in dims if isinstance(dim, int))
    open_dims = len(shape) - len(dims)
    fits = size == volume if not open_dims else volume and size % volume == 0
    if not fits:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}, which does not fit {size} elements."
        )
    if open_dims > 1 and size != volume:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}: raw bytes do not determine its"
            f" {open_dims} dynamic dimensions.",
            hint="Save the data as .json or .npy, which keep shapes.",
        )
    filled = size // volume if volume else 0
    return [dim if isinstance(dim, int) and not is_dynamic_dim(dim) else filled for dim in shape]


ONLY_FIRST = "Only the first of several iterations is used."


def notes_of(loader: object) -> Sequence[str]:
    """Return the notes of a data loader about its assumptions; empty if it has none."""
    notes: Sequence[str] = getattr(loader, "notes", None) or ()
    return notes


class StreamingDataLoader:
    """Yields saved feed dictionaries, one iteration at a time, from files and folders one after
    another.

    Attributes:
        input_metadata: the inputs of the model, which define data types and shapes of raw bytes
            (files ``.bin`` and ``.raw``); set before the first iteration.
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        allow_dirs: bool = True,
        preprocess: Mapping[str, Any] | None = None,
    ) -> None:
        """Set the files and folders to load.

        Args:
            paths: the files to load; an image, or each image in a folder, is an iteration.
            allow_dirs: whether folders are accepted.
            preprocess: the steps for images, in this order: ``resize`` (width and height),
                ``scale``, ``mean`` and ``std`` (a number, or one per channel), ``layout`` (such as
                ``nchw``).

        Raises:
            UsageError: there are no paths, one is a folder and `allow_dirs` is False, or a
                preprocessing step does not exist.
        """
        # Imported here, because generated data does not need it.
        from polygraphy.domain.data.preprocessing import Preprocess

        self.preprocess = dict(preprocess or {})
        self._preprocess = Preprocess.of(self.preprocess)
        self.paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
        if not self.paths:
            raise UsageError("No path to load input data from.")
        self.input_metadata: TensorMetadata | None = None
        for path in self.paths:
            if not allow_dirs and Path(path).is_dir():
                raise UsageError(f"{path} is a folder; a file is required.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the feeds, starting at the first iteration.
        Raise FileError at once if the first path is missing or damaged."""
        later = (self._iterate_file(path) for path in self.paths[1:])
        if holds_blobs(self.paths[0]):
            return chain(self._blobs(self.paths[0]), *later)
        if holds_pictures(self.paths[0]):
            return chain(self._pictures(self.paths[0]), *later)
        opened = resolve(ResultStore).iterate(self.paths[0], dict)
        first = list(islice(opened, 1))  # Read the file now, so that a damaged file fails now.
        return chain(first, opened, *later)

    def _iterate_file(self, path: str | Path) -> Iterator[dict[str, Any]]:
        """Yield the feeds of a file or folder: raw data, images, or saved inputs."""
        if holds_blobs(path):
            yield from self._blobs(path)
        elif holds_pictures(path):
            yield from self._pictures(path)
        else:
            yield from resolve(ResultStore).iterate(path, dict)

    def _pictures(self, path: str | Path) -> Iterator[dict[str, Any]]:
        """Yield a feed dictionary for each image.
        Raise InputError with the file name if the model cannot accept it."""
        inputs = TensorMetadata() if self.input_metadata is None else self.input_metadata
        shapes = [shape for _, shape in inputs.values()]
        is_gray = len(shapes) == 1 and self._preprocess.channels_in(shapes[0]) == 1
        for file, arrays in iterate_pictures(path, self._preprocess.resize, is_gray):
            if [*arrays] != ["image"]:
                yield dict(arrays)
                continue
            array = self._preprocess(arrays["image"], file)
            if len(inputs) != 1:
                yield {"image": array}
                continue
            [(name, (_, shape))] = inputs.items()
            fitted = array if shape is None else fit_shape(array, shape)
            if fitted is None or (fitted.ndim == 4 and len(fitted) > 1):  # An image is one sample.
                raise InputError(
                    f"{file}: the image has shape {format_shape(array.shape)}, but input"
                    f" {name!r} has {format_shape(shape)}.",
                    hint=self._preprocess.advice(shape),
                )
            yield {name: array}

    def _blobs(self, path: str | Path) -> Iterator[dict[str, Any]]:
        """Yield input arrays from raw bytes in a file."""
        for blobs in iterate_blobs(path):
            if self.input_metadata is None:
                raise UsageError(
                    f"{path} contains raw bytes, without data types and shapes.",
                    hint="Set input_metadata.",
                )
            try:
                arrays = arrays_of(blobs, self.input_metadata)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
            yield arrays

    def __repr__(self) -> str:
        """Return the paths as text, for debugging."""
        return f"StreamingDataLoader({[str(path) for path in self.paths]!r})"


def iterate_feeds(data_loader: Any) -> Iterator[Mapping[str, Any]]:
    """Return an iterator over the input sets of a data loader, which checks each of them.

    Raises:
        UsageError: the loader is not an iterable, or (from the iterator) it yields something other
            than dictionaries.
    """
    if isinstance(data_loader, type) and not hasattr(type(data_loader), "__iter__"):
        name = data_loader.__name__
        raise UsageError(
            f"The data loader is the class {name!r} itself, which has no data.",
            hint=f"Pass an object of it, as in {name}(...).",
        )
    if not any(hasattr(data_loader, name) for name in ("__iter__", "__getitem__")):
        raise UsageError(
            f"The data loader must be iterable, not {with_article(type(data_loader).__name__)}.",
            hint="Pass a list, or a function that yields dictionaries.",
        )
    return map(_checked_feed, iter(data_loader))


def _checked_feed(feed: Any) -> Mapping[str, Any]:
    """Return an input set; raise UsageError if it is not a dictionary from names to arrays."""
    odd = (
        feed
        if not isinstance(feed, Mapping)
        else next((name for name in feed if not isinstance(name, str)), None)
    )
    if odd is None and isinstance(feed, Mapping):
        return feed
    kind = type(feed).__name__
    if isinstance(feed, Mapping):
        kind += f" with the key {odd!r}"
    raise UsageError(
        "A data loader must yield one dictionary from input names to arrays per"
        f" iteration, not {kind}.",
        hint="Yield {'input_name': array, ...}.",
    )


def has_more(data_loader: Any, remaining: Iterator[Any]) -> bool:
    """Return whether a data loader has a second iteration,
    unless finding out could overwrite the first.

    Args:
        data_loader: any data loader.
        remaining: its iterator, from which the first was read; one over files is read again.

    Raises:
        FileError: a file that comes next is missing or damaged.
    """
    if isinstance(data_loader, StreamingDataLoader):
        return next(remaining, None) is not None
    try:
        return len(data_loader) > 1
    except TypeError:
        return False


def describe_model(data_loader: Any, inputs: TensorMetadata, facts: Callable[[], Facts]) -> None:
    """Pass the inputs of a model to loaders that accept `input_metadata` or `model_facts`.
    Other loaders do not change.

    Args:
        data_loader: the loader.
        inputs: the data types and shapes of the inputs.
        facts: returns further facts about the model, such as valid indices; called only for loaders
            that need it.
    """
    if hasattr(data_loader, "input_metadata"):
        data_loader.input_metadata = TensorMetadata(inputs)
    if hasattr(data_loader, "model_facts"):
        data_loader.model_facts = facts()


def check_has_outputs(outputs: Sized) -> None:
    """Raise ModelError for a model without outputs.

    Raises:
        ModelError: there are no outputs.
    """
    if not len(outputs):
        raise ModelError(
            "The model has no outputs, so there is nothing to run.",
            hint="Mark tensors of an ONNX model as outputs with --onnx-outputs.",
        )


def check_is_tensor(name: str, kind: str) -> None:
    """Raise InputError for an input that is not a tensor.

    Args:
        name: the input.
        kind: its kind, as ONNX names it: ``tensor``, ``seq``, ``map``, ``optional``, ...

    Raises:
        ModelError: the input is not a tensor.
    """
    if kind not in ("tensor", ""):
        words = {"seq": "sequence", "sequence": "sequence"}
        raise ModelError(
            f"Input {name!r} of the model is a {words.get(kind, kind.replace('_', ' '))}, not a"
            " tensor, so it cannot receive data.",
            hint="Extract the part that uses tensors with polygraphy surgeon extract.",
        )
