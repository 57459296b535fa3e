"""Synthetic input data: the same seed and the same iteration always give the same arrays."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from polygraphy.binding import UnboundPortError, resolve
from polygraphy.domain.data.loading import hint_for_fixed_sizes
from polygraphy.domain.errors import InputError, UnknownNameError, UsageError
from polygraphy.domain.ports import Tensors
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import BoundedShape, MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.naming import (
    Note,
    PerOutput,
    copy_setting,
    escape_command,
    join_words,
    match_name,
    one_line,
    value_for,
)
from polygraphy.domain.tensors.shapes import (
    Shape,
    command_line_shape,
    fits,
    format_shape,
    is_dynamic_dim,
    is_shape_dynamic,
    lengths_in_names,
    may_be_caches,
    override_dynamic_shape,
    quote_name,
)

_BLOCK = 1 << 14


def sample(
    generator: np.random.RandomState,
    name: str,
    meta: MetadataTuple,
    low: float,
    high: float,
    *,
    is_exhausted: bool = False,
) -> Array:
    """Return random data for one input, uniform from `low` to `high`, both inclusive.

    Args:
        generator: the random number generator.
        name: the input, for messages.
        meta: its data type and its static shape.
        low: the smallest value.
        high: the largest value; strings are these numbers as text, and booleans are whether the
            number is not zero.
        is_exhausted: whether to draw whole numbers for any data type.

    Raises:
        InputError: the data type has no value in the range, or the shape exceeds the memory.
    """
    dtype: DataTypeEntry = meta.dtype
    shape = override_dynamic_shape(meta.shape or ())
    try:
        if math.prod(shape) * 8 > sys.maxsize:  # NumPy generates numbers of eight bytes.
            raise MemoryError
        return _draw_elements(generator, name, dtype, shape, low, high, is_exhausted=is_exhausted)
    except MemoryError:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}, which does not fit into memory.",
            hint="Set a smaller shape with --input-shapes.",
        ) from None


def _draw_elements(
    generator: np.random.RandomState,
    name: str,
    dtype: DataTypeEntry,
    shape: tuple[int, ...],
    low: float,
    high: float,
    *,
    is_exhausted: bool,
) -> Array:
    """Return random data of a static shape; see `sample`."""
    if dtype == DataType.BOOL:
        smallest, largest = not low <= 0 <= high, not low == high == 0
        return np.asarray(generator.randint(smallest, largest + 1, size=shape, dtype=np.bool_))
    if dtype.is_integral:
        return _draw_integers(generator, name, dtype, shape, low, high)
    is_text = dtype == DataType.STRING
    native = np.dtype(np.float64) if is_text else dtype.numpy()
    with np.errstate(over="ignore"):  # Values that do not fit in a narrow type become infinite.
        if is_exhausted:
            drawn = generator.randint(math.ceil(low), math.floor(high) + 1, size=shape)
            numbers = drawn if is_text else np.asarray(drawn).astype(native)
        else:
            numbers = _floats(generator, shape, low, high, native)
    return np.asarray(numbers).astype(np.str_) if is_text else numbers


def _draw_integers(
    generator: np.random.RandomState,
    name: str,
    dtype: DataTypeEntry,
    shape: tuple[int, ...],
    low: float,
    high: float,
) -> Array:
    """Return random integers in a range; raise InputError if the range is infinite."""
    if math.isinf(low) or math.isinf(high):
        raise InputError(f"Input {name!r} contains integers, whose value range cannot be infinite.")
    smallest, largest = math.ceil(low), math.floor(high)
    if smallest > largest:
        raise InputError(
            f"There is no integer between {low} and {high} for input {name!r}.",
            hint="Widen its value range.",
        )
    native = dtype.numpy()
    least, most = integer_limits(dtype)
    if smallest < least or largest > most:
        raise InputError(
            f"The value range [{low}, {high}] of input {name!r} does not fit into {dtype},"
            f" whose range is {least} to {most}."
        )
    drawn_as = native if native.kind in "iu" else np.dtype(np.int64)
    drawn = generator.randint(smallest, largest + 1, size=shape, dtype=drawn_as)
    return np.asarray(drawn).astype(native)


def integer_limits(dtype: DataTypeEntry) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer data type."""
    native = dtype.numpy()
    if native.kind in "iu":
        limits = np.iinfo(native)
        return int(limits.min), int(limits.max)
    bits = int(dtype.itemsize * 8)
    unsigned = dtype.name.startswith("u")
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _floats(
    generator: np.random.RandomState,
    shape: tuple[int, ...],
    low: float,
    high: float,
    dtype: np.dtype[Any],
) -> Array:
    """Return random numbers, drawn in blocks so that the float64 values stay in the cache."""
    drawn = np.empty(math.prod(shape), dtype)
    for start in range(0, drawn.size, _BLOCK):
        block = drawn[start : start + _BLOCK]
        block[...] = _scale_unit(generator.random_sample(block.size), low, high)
    return drawn.reshape(shape)


def _scale_unit(unit: Array, low: float, high: float) -> Array:
    """Return numbers from 0 to 1 as numbers from `low` to `high`; the former may be overwritten."""
    if math.isinf(low) and math.isinf(high):
        return np.where(unit < 0.5, low, high)
    if math.isinf(low) or math.isinf(high):
        return np.full(unit.shape, low if math.isinf(low) else high)
    width = float(high) - float(low)
    if math.isinf(width):  # The range is wider than the largest number.
        return low * (1 - unit) + high * unit
    if width != 1:
        unit *= width
    if low != 0:
        unit += float(low)
    return unit


DEFAULT_SEED = 1
DEFAULT_VAL_RANGE = (0.0, 1.0)

ValRange = tuple[float | int, float | int]
_WILDCARDS = frozenset("*?[")


_EXAMPLE_LENGTH = 64
"""A length that most models of images and text accept. Chosen, not measured."""


class DataLoader:
    """Generates random input data from the metadata of the inputs.

    Iteration `i` draws from a Mersenne Twister seeded with ``seed + i``; the inputs draw one after
    another, in the order of the metadata.

    Attributes:
        input_metadata: the inputs of the model; set before the first iteration.
        model_facts: further facts about the model: valid values of indices and masks without a set
            range.
        notes: the assumptions made, in words, each once.
        assumed: the shapes in which 1 was used for dynamic dimensions, by input.
        is_range_given: whether the range of values was chosen, even as the default range.
        larger: these shapes with a larger length, except for the first dimension, as an example for
            users whose model does not run with 1.
    """

    def __init__(
        self,
        seed: int | None = None,
        iterations: int | None = None,
        input_metadata: TensorMetadata | Sequence[TensorMetadata] | None = None,
        val_range: PerOutput[ValRange] | None = None,
        data_loader_backend_module: str | None = None,
    ) -> None:
        """Describe the data to generate.

        Args:
            seed: seed of iteration 0 (default: 1).
            iterations: number of feed dictionaries (default: one, or one per entry of
                `input_metadata`). With 0, models are loaded but not run.
            input_metadata: data types and shapes that override the model's; names may be patterns.
                A list has one entry per iteration, and is repeated.
            val_range: smallest and largest value, both inclusive, for all inputs or per input
                (default: (0.0, 1.0)).
            data_loader_backend_module: the array library of the data, ``numpy`` (the default) or
                ``torch``; the numbers are the same.

        Raises:
            UsageError: a value is out of its range.
            MissingDependencyError: the array library is not installed.
        """
        self.seed = DEFAULT_SEED if seed is None else int(seed)
        self._turns = _metadata_by_turn(input_metadata)
        self.iterations = len(self._turns) if iterations is None else int(iterations)
        self.input_metadata: TensorMetadata | None = None
        self.model_facts: Facts | None = None
        self.is_range_given = val_range is not None
        self.val_range: PerOutput[ValRange] = copy_setting(
            DEFAULT_VAL_RANGE if val_range is None else val_range
        )
        self.notes: list[str] = []
        self.assumed: dict[str, tuple[int, ...]] = {}
        self.larger: dict[str, tuple[int, ...]] = {}
        if self.seed < 0:
            raise UsageError(f"A seed must not be negative, but is {self.seed}.")
        if not self._turns:
            raise UsageError("`input_metadata` must list at least one iteration.")
        if self.iterations < 0:
            raise UsageError(f"{self.iterations} is not a valid number of iterations.")
        self._tensors = _tensors_of(data_loader_backend_module)
        _ranges(self.val_range)

    @property
    def has_shapes(self) -> bool:
        """Return whether shapes or data types of inputs are set."""
        return any(self._turns)

    def __len__(self) -> int:
        """Return the number of iterations."""
        return self.iterations

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the feed dictionary of each iteration."""
        # Seeding a generator takes a fiftieth of the time of creating one.
        generator = np.random.RandomState(0)
        return (self._feed(index, generator) for index in range(self.iterations))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return the generated feed dictionary of one iteration.

        Raises:
            IndexError: there are fewer iterations.
            InputError: a given shape or data type does not fit the model.
            UnknownNameError: a shape or a range is given for an input that the model does not have.
        """
        if not 0 <= index < self.iterations:
            raise IndexError(index)
        return self._feed(index, np.random.RandomState(0))

    def _feed(self, index: int, generator: np.random.RandomState) -> dict[str, Any]:
        """Return the feed dictionary of one iteration, from a generator seeded for it."""
        turn = self._turns[index % len(self._turns)]
        model = turn if self.input_metadata is None else self.input_metadata
        patterns = _expand_patterns(turn, list(model))
        ranges = self._ranges_by_input(list(model))
        metadata = self._merge_metadata(model, patterns)
        generator.seed((self.seed + index) % 2**32)
        feed = {}
        for name, meta in metadata.items():
            values = self._shape_values(name, meta, patterns)
            if values is None:
                (low, high), is_whole = self._range(name, meta.dtype, ranges)
                values = sample(generator, name, meta, low, high, is_exhausted=is_whole)
            feed[name] = self._tensors.from_array(name, values) if self._tensors else values
        return feed

    def _range(
        self, name: str, dtype: DataTypeEntry, ranges: PerOutput[ValRange]
    ) -> tuple[ValRange, bool]:
        """Return the value range of an input, and whether all its values are integers.
        The range is the one that was set, else that of the model.
        """
        value = value_for(ranges, name, None) if self.is_range_given else None
        hint = self.model_facts.input_hints.get(name) if self.model_facts else None
        if value is not None or hint is None:
            if value is None and dtype.is_integral:
                self._add_note(
                    f"Input tensor: {one_line(name)} | Using whole numbers from 0 to 1: the"
                    " model does not state a range. Set a different range with --val-range."
                )
            return value or DEFAULT_VAL_RANGE, False
        high = min(hint.high, integer_limits(dtype)[1]) if dtype.is_integral else hint.high
        low = max(hint.low, integer_limits(dtype)[0]) if dtype.is_integral else hint.low
        text = f"whole numbers from {low} to {high}" if low < high else f"{low}"
        self._add_note(
            f"Input tensor: {one_line(name)} | Using {text}: the model uses it as"
            f" {hint.reason}. Set a different range with --val-range."
        )
        return (low, high), True

    def with_seed(self, seed: int, val_range: PerOutput[ValRange] | None) -> DataLoader:
        """Return a loader with the same shapes and types but a different seed and, if set, range.

        Args:
            seed: the seed of the new loader.
            val_range: the range of the new loader; None: unchanged.
        """
        loader = copy(self)
        loader.seed, loader.notes = seed, []
        if val_range is not None:
            loader.val_range = copy_setting(val_range)
            loader.is_range_given = True
        return loader

    @property
    def user_input_metadata(self) -> TensorMetadata:
        """Return the metadata that replaces the model's in the first iteration."""
        return self._turns[0]

    def _ranges_by_input(self, names: Sequence[str]) -> PerOutput[ValRange]:
        """Return the ranges by the model's input names."""
        if not isinstance(self.val_range, Mapping):
            return self.val_range
        return {
            _match_input(name, names) if name else "": bounds
            for name, bounds in self.val_range.items()
        }

    def _merge_metadata(self, model: TensorMetadata, overrides: TensorMetadata) -> TensorMetadata:
        """Return the model's metadata overridden by the user's; every shape is static."""
        merged = TensorMetadata()
        lengths = _lengths(model, overrides)
        for name, (dtype, shape) in model.items():
            user_dtype, user_shape = overrides.get(name, MetadataTuple(None, None))
            wanted_dtype = DataType.from_dtype(dtype if user_dtype is None else user_dtype)
            requested_indices = shape
            if user_shape is None:
                requested_indices = self._with_required_lengths(
                    self._with_known_lengths(name, shape, lengths), model
                )
            merged.add(
                name,
                wanted_dtype or DataType.FLOAT32,
                self._static_shape(name, requested_indices, user_shape),
            )
        return merged

    def _with_known_lengths(
        self, name: str, shape: Shape | None, lengths: Mapping[str, int]
    ) -> Shape | None:
        """Return an input shape with numbers for dimensions whose length another input defines.
        The result is None if the shape is unknown."""
        if shape is None or lengths.keys().isdisjoint(shape):
            return shape
        if isinstance(shape, BoundedShape) and (shape.min or shape.max):
            return shape
        known_lengths = [lengths.get(dim, dim) if isinstance(dim, str) else dim for dim in shape]
        if not is_shape_dynamic(known_lengths):
            self._add_note(
                f"Input tensor: {one_line(name)} | Will use shape: {known_lengths}, because you"
                " set dimensions with the same names."
            )
        return known_lengths

    def _with_required_lengths(self, shape: Shape | None, model: TensorMetadata) -> Shape | None:
        """Return an input shape with numbers for dimensions whose length the model requires,
        such as the number of heads in a cache; None if the shape is unknown."""
        is_open = shape is not None and any(isinstance(dim, str) for dim in shape)
        if not is_open or (isinstance(shape, BoundedShape) and (shape.min or shape.max)):
            return shape
        required = lengths_in_names([shape or ()])
        # Only ask for facts if necessary: they need the onnx package, and its import takes longer
        # than most models run.
        if may_be_caches([info.shape for info in model.values()]):
            required |= getattr(self.model_facts, "dim_lengths", {})
        return [required.get(dim, dim) if isinstance(dim, str) else dim for dim in shape or ()]

    def _static_shape(
        self, name: str, shape: Shape | None, requested: Shape | None
    ) -> Sequence[int]:
        """Return a shape without dynamic dimensions for an input.
        Raise InputError if the given one does not fit.
        """
        if requested is not None:
            static = override_dynamic_shape(requested)
            if not fits(static, shape) and not self._is_shape_value(name, static):
                raise InputError(
                    f"Shape mismatch: input {name!r} has shape {format_shape(shape or ())} in"
                    f" the model, which does not match {format_shape(static)}.",
                    hint=hint_for_fixed_sizes(static, shape),
                )
            if fits(static, shape):
                return static
        if shape is None:
            raise InputError(
                f"Input {name!r} has no shape in the model, not even a rank.",
                hint="Set its shape.",
            )
        if not is_shape_dynamic(shape):
            return [dim for dim in shape if isinstance(dim, int)]
        bounds = shape if isinstance(shape, BoundedShape) else None
        for bound in (bounds.min, bounds.max) if bounds else ():
            if bound is not None:
                return tuple(bound)
        static = override_dynamic_shape(shape)
        self.assumed[name] = tuple(static)
        self.larger[name] = tuple(
            _EXAMPLE_LENGTH if axis and is_dynamic_dim(dim) else size
            for axis, (dim, size) in enumerate(zip(shape, static, strict=True))
        )
        self._add_note(
            Note(
                f"Input tensor: {one_line(f'{name} {_describe_input(self.input_metadata, name)}')}"
                " | No shapes provided; "
                f"Will use shape: {list(static)}.\n"
                "If this is incorrect, please set the shape of this input tensor.",
                _shape_note(name, shape, static),
            )
        )
        return static

    def _is_shape_value(self, name: str, requested: Sequence[int]) -> bool:
        """Return whether a "shape" that the user set can only be the elements of a shape tensor."""
        meta = (self.input_metadata or self._turns[0]).get(name)
        if meta is None or meta.shape is None:
            return False
        dtype = DataType.from_dtype(meta.dtype)
        return dtype is not None and dtype.is_integral and list(meta.shape) == [len(requested)]

    def _shape_values(
        self, name: str, meta: MetadataTuple, overrides: TensorMetadata
    ) -> np.ndarray[Any, Any] | None:
        """Return the elements of a shape tensor, if the "shape" that the user set for this input
        can only be its elements; else None."""
        shape = overrides[name].shape if name in overrides else None
        if shape is None or fits(override_dynamic_shape(shape), meta.shape):
            return None
        self._add_note(
            f"Input tensor: {one_line(name)} | Using {list(shape)} as its value, because it is"
            " a shape tensor."
        )
        return np.array(override_dynamic_shape(shape), dtype=meta.dtype.numpy())

    def _add_note(self, text: str) -> None:
        """Add a note unless it was added before."""
        if text not in self.notes:
            self.notes.append(text)

    def __repr__(self) -> str:
        """Return the settings as text, for debugging."""
        return (
            f"DataLoader(seed={self.seed}, iterations={self.iterations},"
            f" val_range={self.val_range!r})"
        )


def _lengths(model: TensorMetadata, overrides: TensorMetadata) -> dict[str, int]:
    """Return the lengths of named dimensions in given shapes.
    Ambiguous or unnamed ones are skipped.
    """
    lengths_by_name: dict[str, set[int]] = {}
    for name, meta in overrides.items():
        stated = model[name].shape if name in model else None
        if stated is None or meta.shape is None or is_shape_dynamic(meta.shape):
            continue
        if len(stated) != len(meta.shape):
            # The override is the value of a shape tensor, not its shape.
            continue
        for dim, length in zip(stated, meta.shape):
            if isinstance(dim, str) and any(map(str.isalnum, dim)) and isinstance(length, int):
                lengths_by_name.setdefault(dim, set()).add(length)
    return {
        dim: length
        for dim, (length, *extra_lengths) in lengths_by_name.items()
        if not extra_lengths
    }


def _tensors_of(library: str | None) -> Tensors | None:
    """Return the tensor factory of a library; None for NumPy."""
    if library in (None, "numpy"):
        return None
    try:
        tensors = resolve(Tensors, library)
    except UnboundPortError:
        raise UsageError(
            f"Data cannot be generated with {library!r}.", hint="Available: numpy, torch."
        ) from None
    tensors.prepare()
    return tensors


def _metadata_by_turn(
    given_metadata: TensorMetadata | Sequence[TensorMetadata] | None,
) -> list[TensorMetadata]:
    """Return the input metadata of each iteration, at least one.
    Later iterations start again at the first."""
    if given_metadata is None or isinstance(given_metadata, TensorMetadata):
        return [TensorMetadata(given_metadata or {})]
    if not given_metadata:
        raise UsageError("Metadata for at least one iteration is required.")
    return list(map(TensorMetadata, given_metadata))


def _describe_input(metadata: TensorMetadata | None, name: str) -> str:
    """Return the data type and shape of an input as text; empty if unknown."""
    if metadata is None or name not in metadata:
        return ""
    dtype, shape = metadata[name]
    return f"(dtype={dtype}, shape={tuple(shape)})"


def _shape_note(name: str, shape: Shape, static: Sequence[int]) -> str:
    """Return a line about dynamic dimensions that became 1."""
    dims = dict.fromkeys(repr(dim) for dim in shape if isinstance(dim, str) and dim)
    which = join_words(list(dims)) if dims else "a dimension"
    word = shlex.quote(f"{quote_name(name)}:{command_line_shape(static)}")
    verb, pronoun = ("is", "it") if len(dims) < 2 else ("are", "them")
    sentence = one_line(f"{name}: {which} {verb} dynamic, so 1 was used. Set {pronoun} with")
    return f"{sentence} --input-shapes {escape_command(word)}"


def _ranges(val_range: PerOutput[ValRange]) -> list[ValRange]:
    """Return all given ranges as ascending pairs."""
    ranges = list(val_range.values()) if isinstance(val_range, Mapping) else [val_range]
    for pair in ranges:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not pair[0] <= pair[1]:
            raise UsageError(
                f"A value range must be a pair of numbers in ascending order, not {pair!r}.",
                hint="Use, for example, (0.0, 1.0).",
            )
    return ranges


def _expand_patterns(metadata: TensorMetadata, names: Sequence[str]) -> TensorMetadata:
    """Return metadata with patterns replaced by the names that they match;
    an exact name outranks a pattern.

    Raises:
        UnknownNameError: a name or a pattern matches nothing.
    """
    expanded = TensorMetadata()
    for key, meta in metadata.items():
        is_pattern = key not in names and bool(_WILDCARDS & set(key))
        matched = [name for name in names if is_pattern and fnmatchcase(name, key)]
        for name in matched or [_match_input(key, names)]:
            if not is_pattern or name not in metadata:
                expanded[name] = meta
    return expanded


def _match_input(name: str, names: Sequence[str]) -> str:
    """Return the input that a name matches; raise UnknownNameError if there is none."""
    matched = match_name(name, names)
    if matched is None:
        raise UnknownNameError("Input", name, names)
    return matched
