"""The range of shapes that each input of a model may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from polygraphy.domain.errors import UnknownKeyError, UsageError
from polygraphy.domain.tensors.pickling import PublishedDict, pickle_as


def _as_dims(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of integers."""
    return tuple(int(dim) for dim in shape)


@pickle_as("polygraphy.backend.trt.profile")
@frozen
class ShapeTuple:
    """The smallest (`min`), usual (`opt`) and largest (`max`) shape of one input; unpacks in this
    order.
    """

    min: tuple[int, ...] = field(converter=_as_dims)
    opt: tuple[int, ...] = field(converter=_as_dims)
    max: tuple[int, ...] = field(converter=_as_dims)

    def __attrs_post_init__(self) -> None:
        """Convert the shapes to tuples of integers, and check that their ranks are equal."""
        ranks = {len(self.min), len(self.opt), len(self.max)}
        ordered = all(low <= mid <= high for low, mid, high in zip(self.min, self.opt, self.max))
        if len(ranks) != 1 or not ordered:
            raise UsageError(
                f"A range of shapes requires min <= opt <= max in every dimension, not {self}.",
                hint="Use three shapes of the same rank.",
            )

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the smallest, the usual and the largest shape."""
        yield self.min
        yield self.opt
        yield self.max

    def contains(self, shape: Sequence[int]) -> bool:
        """Return whether `shape` lies inside the range."""
        return len(shape) == len(self.min) and all(
            low <= dim <= high for low, dim, high in zip(self.min, shape, self.max)
        )

    def __str__(self) -> str:
        """Return the three shapes in one line."""
        return f"(min={list(self.min)}, opt={list(self.opt)}, max={list(self.max)})"


class Profile(PublishedDict[ShapeTuple]):
    """Maps each input to its range of shapes."""

    def add(self, name: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> Profile:
        """Add or replace the range of one input; return this object, so that calls can be chained.

        Args:
            name: the input; adapters may also take a pattern such as ``"input_*"``.
            min: the smallest shape, one integer per dimension; for a shape tensor its smallest
                value.
            opt: the shape to optimize for.
            max: the largest shape.

        Raises:
            UsageError: the three differ in rank or are not in ascending order.
        """
        self[name] = ShapeTuple(min, opt, max)
        return self

    @staticmethod
    def from_shapes(shapes: Mapping[str, Sequence[int]]) -> Profile:
        """Return a profile in which every input has exactly one shape."""
        profile = Profile()
        for name, shape in shapes.items():
            profile.add(name, shape, shape, shape)
        return profile

    def __missing__(self, name: str) -> ShapeTuple:
        """Raise UnknownKeyError for an input without a range."""
        raise UnknownKeyError("Input", name, self, hint="Add its shapes to the profile.")

    def misfits(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """Return the shapes that lie outside the range of their input, by input."""
        return {
            name: shape
            for name, shape in shapes.items()
            if name in self and not self[name].contains(shape)
        }

    def __repr__(self) -> str:
        """Return the ranges as text."""
        calls = "".join(
            f".add({name!r}, min={list(lo)}, opt={list(mid)}, max={list(hi)})"
            for name, (lo, mid, hi) in self.items()
        )
        return f"Profile(){calls}"

    def __str__(self) -> str:
        """Return the ranges as text, one input after another."""
        return (
            "{"
            + ",\n ".join(
                f"{name} [min={list(r.min)}, opt={list(r.opt)}, max={list(r.max)}]"
                for name, r in self.items()
            )
            + "}"
        )
