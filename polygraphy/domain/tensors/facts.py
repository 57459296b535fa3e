"""What is known of a model without running it."""

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
    """Which whole numbers an input may take, whatever its data type.

    Attributes:
        low: the smallest legal value.
        high: the largest legal value.
        reason: what the model does with them, in words, such as "indexes 30522 rows of 'table'".
    """

    low: int
    high: int
    reason: str


class Facts(Protocol):
    """What is known of a model."""

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """The coarsest data type in which each output is computed, such as ``float16`` or ``tf32``,
        by output; the key ``""`` stands for the outputs that are not named.
        """

    @property
    def bounded(self) -> Collection[str]:
        """The outputs whose elements always lie between -1 and 1, such as probabilities."""

    @property
    def ordered(self) -> Collection[str]:
        """The outputs that are computed from elements sorted by a score, such as boxes."""

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The layout of each output, by output; outputs of unknown layout are left out."""

    @property
    def lowered(self) -> ComputePrecision | None:
        """How operators of the model that work on float32 tensors are computed, if not in float32;
        its operators are those that the model has.
        """

    @property
    def source(self) -> Any:
        """The model or its path; None if it is not available."""

    @property
    def input_hints(self) -> Mapping[str, InputHint]:
        """The values that each input may take, by input, where the model limits them."""

    @property
    def dim_lengths(self) -> Mapping[str, int]:
        """The lengths of named dimensions of inputs that the operators of the model require."""

    @property
    def sources(self) -> Mapping[str, str]:
        """The tensor of the exported program that each output comes from, by output, as the
        exporter recorded it.
        """

    @property
    def is_program(self) -> bool:
        """Whether the model is a program from which others are exported, and its outputs are all
        tensors, which have other names in these; known without looking into a file.
        """


@pickle_as("polygraphy.comparator.struct")
@frozen
class ModelFacts:
    """What is known of a model; see `Facts`. Empty where nothing is."""

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
    """Return the coarsest data type in which an output was computed; None when not known."""
    compute_dtypes = {} if facts is None else facts.compute_dtypes
    return compute_dtypes.get(name, compute_dtypes.get(""))


def compute_precision(facts: Facts | None) -> ComputePrecision | None:
    """Return how operators on float32 tensors are computed, if not in float32 and that is known."""
    lowered: ComputePrecision | None = getattr(facts, "lowered", None)
    return lowered


def is_bounded(facts: Facts | None, name: str) -> bool:
    """Return whether the elements of an output are known to lie between -1 and 1."""
    return name in getattr(facts, "bounded", ())  # Facts of a runner of somebody's own may lack it.


def is_ordered(facts: Facts | None, name: str) -> bool:
    """Return whether an output is known to be computed from elements sorted by a score."""
    return name in getattr(facts, "ordered", ())


def layout_of(facts: Facts | None, name: str) -> Layout | None:
    """Return the layout of an output; None if it is unknown."""
    layouts: Mapping[str, Layout] = getattr(facts, "layouts", {})
    return layouts.get(name)


def layout_between(sides: Iterable[tuple[Facts | None, str]]) -> Layout | None:
    """Return the layout of the first of two compared outputs that is known to have parts, at fixed
    places if one has; None if neither is known.
    """
    layouts = [layout for facts, name in sides if (layout := layout_of(facts, name)) is not None]
    joined = [layout for layout in layouts if not layout.is_plain]
    # Where elements are chosen by data, only the other side tells what lies where.
    fixed = [layout for layout in joined if layout.kind != "choose"]
    return next(iter([*fixed, *joined, *layouts]), None)


class DeferredLayouts(Mapping[str, Layout]):
    """Layouts that are found out when they are first asked for, and kept: most outputs match
    without them.
    """

    def __init__(self, find: Callable[[], Mapping[str, Layout]]) -> None:
        self._find: Callable[[], Mapping[str, Layout]] | None = find
        self._found: Mapping[str, Layout] = {}

    def _layouts(self) -> Mapping[str, Layout]:
        """Return the layouts, by output; find them at the first call."""
        if self._find is not None:
            self._found, self._find = self._find(), None
        return self._found

    def __getitem__(self, name: str) -> Layout:
        return self._layouts()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layouts())

    def __len__(self) -> int:
        return len(self._layouts())

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def _as_it_is(facts: Facts) -> Facts:
    """Return the facts unchanged."""
    return facts


def _perhaps() -> bool:
    """Return True: the model may limit the values of inputs."""
    return True


@pickle_as("polygraphy.comparator.struct")
class DeferredFacts:
    """Facts that are found out when they are first asked for, and kept.

    They go to another process as they are, if what finds them out does; else as they are found.
    """

    is_program = False

    def __init__(
        self, find: Callable[[], Facts], may_limit_inputs: Callable[[], bool] = _perhaps
    ) -> None:
        """Set how they are found out.

        Args:
            find: finds out all of them.
            may_limit_inputs: says whether the model may limit the values of inputs at all, where
                that takes less than to find out how; it is asked first.
        """
        self._find = find
        self._may_limit_inputs = may_limit_inputs
        self._found: Facts | None = None

    def __reduce__(self) -> Any:
        import pickle

        try:
            pickle.dumps((self._find, self._may_limit_inputs))
        except Exception:  # Each kind of object that cannot be pickled raises its own.
            return _as_it_is, (self._facts(),)
        return type(self), (self._find, self._may_limit_inputs)

    def _facts(self) -> Facts:
        """Return the facts; find them at the first call."""
        if self._found is None:
            self._found = self._find()
        return self._found

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """See `Facts`."""
        return self._facts().compute_dtypes

    @property
    def bounded(self) -> Collection[str]:
        """See `Facts`."""
        return self._facts().bounded

    @property
    def ordered(self) -> Collection[str]:
        """See `Facts`."""
        return self._facts().ordered

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """See `Facts`."""
        return self._facts().layouts

    @property
    def lowered(self) -> ComputePrecision | None:
        """See `Facts`."""
        return self._facts().lowered

    @property
    def source(self) -> Any:
        """See `Facts`."""
        return self._facts().source

    @property
    def input_hints(self) -> Mapping[str, InputHint]:
        """See `Facts`."""
        if self._found is None and not self._may_limit_inputs():
            return {}
        return self._facts().input_hints

    @property
    def dim_lengths(self) -> Mapping[str, int]:
        """See `Facts`."""
        return self._facts().dim_lengths

    @property
    def sources(self) -> Mapping[str, str]:
        """See `Facts`."""
        return self._facts().sources
