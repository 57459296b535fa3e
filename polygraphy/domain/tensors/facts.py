"""Facts about a model that are known without running it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from attrs import Factory, frozen

from polygraphy.domain.catalog.compute import ComputePrecision
from polygraphy.domain.tensors.parts import Layout
from polygraphy.domain.tensors.pickling import pickle_as


@pickle_as("polygraphy.comparator.struct")
@frozen
class InputHint:
    """The range of integers that an input accepts, whatever its data type.

    Attributes:
        low: the smallest legal value.
        high: the largest legal value.
        reason: the use of the values in the model, in words, such as "indexes 30522 rows of
            'table'".
    """

    low: int
    high: int
    reason: str


class Facts(Protocol):
    """The known facts about a model."""

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """Return, by output, the least precise data type in its computation,
        such as ``float16`` or ``tf32``; the key ``""`` stands for all other outputs."""

    @property
    def bounded(self) -> Collection[str]:
        """Return the outputs whose elements always lie between -1 and 1, such as probabilities."""

    @property
    def ordered(self) -> Collection[str]:
        """Return the outputs that are computed from elements sorted by a score, such as boxes."""

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """Return the layout of each output; outputs with unknown layout are missing."""

    @property
    def lowered(self) -> ComputePrecision | None:
        """Return the precision of operators on float32 tensors, with the operators of the model
        that it affects; None if it is not less than float32."""

    @property
    def source(self) -> Any:
        """Return the model or its path; None if it is not available."""

    @property
    def input_hints(self) -> Mapping[str, InputHint]:
        """Return, by input, the values that it accepts, if the model limits them."""

    @property
    def dim_lengths(self) -> Mapping[str, int]:
        """Return the lengths of named input dimensions that the operators of the model require."""

    @property
    def sources(self) -> Mapping[str, str]:
        """Return, by output, the tensor of the exported program it comes from,
        as recorded by the exporter."""

    @property
    def is_program(self) -> bool:
        """Return whether the model is a program from which others are exported.
        Its outputs are all tensors, which have different names in these; known without reading a
        file."""


@pickle_as("polygraphy.comparator.struct")
@frozen
class ModelFacts:
    """The known facts about a model; see `Facts`. Empty if nothing is known."""

    compute_dtypes: Mapping[str, str] = Factory(dict)
    input_hints: Mapping[str, InputHint] = Factory(dict)
    sources: Mapping[str, str] = Factory(dict)
    is_program: bool = False
    bounded: Collection[str] = ()
    ordered: Collection[str] = ()
    source: Any = None
    layouts: Mapping[str, Layout] = Factory(dict)
    lowered: ComputePrecision | None = None
    dim_lengths: Mapping[str, int] = Factory(dict)


def compute_dtype(facts: Facts | None, name: str) -> str | None:
    """Return the least precise data type in the computation of an output; None if unknown."""
    compute_dtypes = {} if facts is None else facts.compute_dtypes
    return compute_dtypes.get(name, compute_dtypes.get(""))


def compute_precision(facts: Facts | None) -> ComputePrecision | None:
    """Return the precision of operators on float32 tensors; None if it is float32 or unknown."""
    lowered: ComputePrecision | None = getattr(facts, "lowered", None)
    return lowered


def is_bounded(facts: Facts | None, name: str) -> bool:
    """Return whether the elements of an output are known to lie between -1 and 1."""
    # The facts of a user's runner may lack the attribute.
    return name in getattr(facts, "bounded", ())


def is_ordered(facts: Facts | None, name: str) -> bool:
    """Return whether an output is known to be computed from elements sorted by a score."""
    return name in getattr(facts, "ordered", ())


def layout_of(facts: Facts | None, name: str) -> Layout | None:
    """Return the layout of an output; None if it is unknown."""
    layouts: Mapping[str, Layout] = getattr(facts, "layouts", {})
    return layouts.get(name)


def layout_between(sides: Iterable[tuple[Facts | None, str]]) -> Layout | None:
    """Return the first known layout with parts of two compared outputs, preferably with parts at
    fixed positions; None if neither is known."""
    layouts = [layout for facts, name in sides if (layout := layout_of(facts, name)) is not None]
    joined = [layout for layout in layouts if not layout.is_plain]
    # If one side chooses elements by data, only the layout of the other side has fixed positions.
    fixed = [layout for layout in joined if layout.kind != "choose"]
    return next(iter([*fixed, *joined, *layouts]), None)


class DeferredLayouts(Mapping[str, Layout]):
    """Layouts that are computed on first access, because most outputs match without them."""

    def __init__(self, find: Callable[[], Mapping[str, Layout]]) -> None:
        """Set the function that computes the layouts."""
        self._find: Callable[[], Mapping[str, Layout]] | None = find
        self._found: Mapping[str, Layout] = {}

    def _layouts(self) -> Mapping[str, Layout]:
        """Return the layouts, by output; compute them at the first call."""
        if self._find is not None:
            self._found, self._find = self._find(), None
        return self._found

    def __getitem__(self, name: str) -> Layout:
        """Return the layout of an output."""
        return self._layouts()[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the outputs with a layout."""
        return iter(self._layouts())

    def __len__(self) -> int:
        """Return the number of outputs with a layout."""
        return len(self._layouts())

    def __reduce__(self) -> Any:
        """Return what pickle stores: the computed layouts."""
        return dict, (dict(self),)


def _unchanged_facts(facts: Facts) -> Facts:
    """Return the facts unchanged."""
    return facts


def _may_limit_inputs() -> bool:
    """Return True: the model may limit the values of inputs."""
    return True


@pickle_as("polygraphy.comparator.struct")
class DeferredFacts:
    """Facts that are computed on first access.

    They are passed to another process uncomputed if the function that computes them can be pickled;
    else they are computed first.
    """

    is_program = False

    def __init__(
        self, find: Callable[[], Facts], may_limit_inputs: Callable[[], bool] = _may_limit_inputs
    ) -> None:
        """Set the function that computes the facts.

        Args:
            find: finds out all of them.
            may_limit_inputs: says whether the model may limit the values of inputs at all, where
                that takes less than to find out how; it is asked first.
        """
        self._find = find
        self._may_limit_inputs = may_limit_inputs
        self._found: Facts | None = None

    def __reduce__(self) -> Any:
        """Return what pickle stores: the functions, or the computed facts if the functions cannot
        be pickled."""
        import pickle

        try:
            pickle.dumps((self._find, self._may_limit_inputs))
        except Exception:  # Each kind of object that cannot be pickled raises its own error.
            return _unchanged_facts, (self._facts(),)
        return type(self), (self._find, self._may_limit_inputs)

    def _facts(self) -> Facts:
        """Return the facts; compute them at the first call."""
        if self._found is None:
            self._found = self._find()
        return self._found

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """Return the least precise data type of each output; see `Facts`."""
        return self._facts().compute_dtypes

    @property
    def bounded(self) -> Collection[str]:
        """Return the outputs between -1 and 1; see `Facts`."""
        return self._facts().bounded

    @property
    def ordered(self) -> Collection[str]:
        """Return the outputs computed from sorted elements; see `Facts`."""
        return self._facts().ordered

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """Return the layout of each output; see `Facts`."""
        return self._facts().layouts

    @property
    def lowered(self) -> ComputePrecision | None:
        """Return the precision below float32, None without one; see `Facts`."""
        return self._facts().lowered

    @property
    def source(self) -> Any:
        """Return the model or its path; see `Facts`."""
        return self._facts().source

    @property
    def input_hints(self) -> Mapping[str, InputHint]:
        """Return the values that inputs accept; see `Facts`."""
        if self._found is None and not self._may_limit_inputs():
            return {}
        return self._facts().input_hints

    @property
    def dim_lengths(self) -> Mapping[str, int]:
        """Return the required lengths of named dimensions; see `Facts`."""
        return self._facts().dim_lengths

    @property
    def sources(self) -> Mapping[str, str]:
        """Return the program tensor of each output; see `Facts`."""
        return self._facts().sources
