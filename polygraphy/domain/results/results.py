"""What runners produced: outputs per iteration, iterations per runner; whether outputs hold numbers
at all; and what the name of a runner says: kind, number, and when it was made, to the microsecond,
so that runners of other processes have other names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np
from attrs import frozen

from polygraphy.binding import port, resolve
from polygraphy.domain.errors import UnknownKeyError, UsageError
from polygraphy.domain.ports import PathOrFile, ResultStore
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.facts import Facts, ModelFacts, compute_dtype
from polygraphy.domain.tensors.naming import Note
from polygraphy.domain.tensors.pickling import Storable, pickle_as, pickled_items

_SHOWN = 3
"""Values of an entry that are shown."""

K = TypeVar("K")
V = TypeVar("V")


class KeyedList(list[tuple[K, list[V]]], Generic[K, V]):
    """A list of ``(key, values)`` that can be indexed by position or by key, and iterated like a
    dictionary through `items`.

    Keys may repeat; a lookup finds the first entry with the key. Subclasses define what a key is:
    neither an integer nor a slice.
    """

    key_description = "Key"

    def __init__(self, lst: Iterable[tuple[K, Iterable[V]]] | None = None) -> None:
        """Create a list from entries ``(key, values)``, by default without any."""
        super().__init__((key, self.stored_list(key, values)) for key, values in lst or ())

    def stored_list(self, key: K, values: Iterable[V]) -> list[V]:
        """Return the values of an entry as the list that is stored."""
        return list(values)

    def append(self, elem: tuple[K, list[V]]) -> None:
        """Add an entry."""
        super().append(elem)

    def extend(self, elems: Iterable[tuple[K, list[V]]]) -> None:
        """Add entries."""
        for elem in elems:
            self.append(elem)

    @overload
    def __getitem__(self, key: SupportsIndex) -> tuple[K, list[V]]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, key: slice) -> list[tuple[K, list[V]]]: ...
    @overload
    def __getitem__(self, key: K) -> list[V]: ...
    def __getitem__(self, key: Any) -> Any:
        """Return the entry at a position, or the values of the first entry with a key."""
        if _is_position(key):
            return super().__getitem__(key)
        return super().__getitem__(self.index_of(key))[1]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace the entry at a position, or the values of the first entry with a key.
        A new key is appended.
        """
        if _is_position(key):
            super().__setitem__(key, value)
        elif key in self:
            super().__setitem__(self.index_of(key), (key, self.stored_list(key, value)))
        else:
            self.append((key, self.stored_list(key, value)))

    def __contains__(self, key: object) -> bool:
        """Return whether there is an entry with a key."""
        return any(key in (name, (name, values)) for name, values in self.items())

    def index_of(self, key: K) -> int:
        """Return the position of the first entry with a key; UnknownKeyError if there is none."""
        for position, (name, _) in enumerate(self.items()):
            if name == key:
                return position
        raise UnknownKeyError(self.key_description, str(key), map(str, self.keys()))

    def keys(self) -> list[K]:
        """Return the keys, in order."""
        return [key for key, _ in self.items()]

    def values(self) -> list[list[V]]:
        """Return the values of each entry, in order."""
        return [values for _, values in self.items()]

    def items(self) -> Iterator[tuple[K, list[V]]]:
        """Yield ``(key, values)``."""
        return super().__iter__()

    def update(self, entries: KeyedList[K, V] | Mapping[K, Iterable[V]]) -> None:
        """Add the entries of `entries`; an entry whose key exists is replaced."""
        for key, values in entries.items():
            self[key] = values

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore pickled attributes, including those that NVIDIA's Polygraphy saves."""
        entries = pickled_items(state)
        if entries is not None:
            self[:] = entries.items() if isinstance(entries, Mapping) else entries
        vars(self).update(state)

    def __repr__(self) -> str:
        """Return the entries as text, shortened."""
        entries = ", ".join(f"({key!r}, {_list_text(values)})" for key, values in self.items())
        return f"{type(self).__name__}([{entries}])"


def _list_text(values: Sequence[Any]) -> str:
    """Return the text of a list; only the beginning of a long one."""
    values_text = ", ".join(map(repr, values[:_SHOWN]))
    extra = len(values) - _SHOWN
    return f"[{values_text}{f', and {extra} more' if extra > 0 else ''}]"


def _is_position(key: Any) -> bool:
    """Return whether a key is an integer of any library, or a slice."""
    return isinstance(key, (int, slice)) or hasattr(type(key), "__index__")


@frozen
class RecomputedTensors:
    """The tensors that one implementation computes from the inputs of an output.

    Attributes:
        values: the output, computed from the tensors of each run.
        spread: the change of each element if every operand is rounded, in the output's own unit.
    """

    values: Sequence[Array]
    spread: Array


Recompute = Callable[[str, Sequence[Mapping[str, Any]], float], RecomputedTensors | None]
"""Computes a tensor, given by its name, from the tensors of several runs by name, each with the
same operators; the tensor itself is not looked at. The last argument is how coarsely operands are
rounded, as a part of their value; 0 where the tensor holds exact values, which have no spread. None
where it cannot be computed.
"""


@frozen(eq=False)
class Lineage:
    """All tensors of one run, and the function that recomputes outputs from them."""

    recompute: Recompute
    tensors: Mapping[str, Any]


@frozen
class DeviceTimes:
    """The times of one inference in seconds, measured by the device.

    Attributes:
        to_device: time to copy the inputs.
        compute: time of the model.
        to_host: time to copy the outputs.
    """

    to_device: float
    compute: float
    to_host: float

    @property
    def total(self) -> float:
        """Return the sum of all times."""
        return self.to_device + self.compute + self.to_host


@pickle_as("polygraphy.comparator.struct")
@frozen
class Part:
    """The position of some outputs among all outputs of an iteration that does not fit into memory
    at once.

    Attributes:
        index: of the part, from 0; the parts of an iteration follow one another.
        names: of the outputs of all parts, in order.
    """

    index: int
    names: Collection[str]


@pickle_as("polygraphy.comparator.struct")
class IterationResult(dict[str, Any]):
    """Outputs of one inference: a dictionary from names to arrays.

    Attributes:
        runtime: the duration of the inference in seconds; None if it was not measured.
        runner_name: the name of the runner that produced it.
        facts: facts about the model, such as the data types in which outputs are computed.
        part: the part of the iteration's outputs that these are; None for all of them.
        unmarked_outputs: outputs of the model that are not among these, because other tensors were
            chosen. They are not saved, but must match if both runs have them.
        marked_outputs: outputs of the run with marked tensors, if they differ from those
            here, which come from a run of the unmodified model.
        lineage: the tensors from which the outputs were computed; only during the run.
        perturb: returns all outputs twice, perturbed by rounding to a data type, or once perturbed
            and once exact; only during the run.
        origin: the file that they were read from; empty if there is none.
        step: the step of a model with states; None for none.
    """

    unmarked_outputs: Mapping[str, Any] = MappingProxyType({})
    marked_outputs: Mapping[str, Any] = MappingProxyType({})
    lineage: Lineage | None = None
    perturb: Callable[[str], Sequence[Mapping[str, Any]]] | None = None
    origin = ""
    step: Any = None

    def __init__(
        self,
        outputs: Mapping[str, Any] | None = None,
        runtime: float | None = None,
        runner_name: str | None = None,
        *,
        facts: Facts | None = None,
        part: Part | None = None,
    ) -> None:
        """Create a result from outputs by name, with the runtime in seconds and the name of the
        runner."""
        super().__init__(outputs or {})
        self.part = part
        self.runtime = runtime
        self.facts: Facts = ModelFacts() if facts is None else facts
        self.runner_name = "custom_runner" if runner_name is None else runner_name

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle in addition to the outputs."""
        dict_items = vars(self).items()
        return {name: value for name, value in dict_items if name not in ("lineage", "perturb")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore pickled attributes, including those that NVIDIA's Polygraphy saves."""
        outputs = pickled_items(state)
        if outputs is not None:
            self.__init__(_load_arrays(outputs))  # type: ignore[misc]
        vars(self).update(state)

    def with_outputs(self, outputs: Mapping[str, Any]) -> IterationResult:
        """Return the same iteration with different outputs."""
        changed = IterationResult(outputs)
        vars(changed).update(vars(self))
        return changed

    @property
    def is_continued(self) -> bool:
        """Whether these are further outputs of the previous iteration."""
        return self.part is not None and self.part.index > 0

    def known_names(self) -> Collection[str]:
        """Return the names of all outputs of the iteration, including those in its other parts (see
        `Part`)."""
        return self.keys() if self.part is None else self.part.names

    def compute_dtype(self, name: str) -> str | None:
        """Return the least precise data type in the computation of an output; None if unknown."""
        return compute_dtype(self.facts, name)

    def __eq__(self, other: object) -> bool:
        """Return whether outputs, runtime and runner name are equal; NaN equals NaN."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.keys() == other.keys() and all(
            is_same_array(array, other[name]) for name, array in self.items()
        )

    def __ne__(self, other: object) -> bool:
        """Return whether anything differs."""
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        """Return the outputs, runtime and runner name as text."""
        outputs = ", ".join(f"{name!r}: {_describe_array(array)}" for name, array in self.items())
        return (
            f"IterationResult({{{outputs}}}, runtime={self.runtime!r},"
            f" runner_name={self.runner_name!r})"
        )


def _describe_array(array: Any) -> str:
    """Return the data type and the shape of an array as text."""
    dtype, shape = getattr(array, "dtype", None), getattr(array, "shape", None)
    return repr(array) if dtype is None or shape is None else f"{dtype}{list(shape)}"


def _load_arrays(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs with arrays in place of the stand-ins in NVIDIA's pickles."""
    return {
        name: array.load() if hasattr(array, "load") else array for name, array in outputs.items()
    }


def _read_from(path: str, stream: Iterator[RunResults]) -> Iterator[RunResults]:
    """Yield the results in a stream; each knows its file."""
    for results in stream:
        _name_origin(path, results)
        yield results
        del results  # Release this iteration before the next one is read.


def _name_origin(path: str, results: RunResults) -> None:
    """Set the file that results come from on each iteration."""
    for _, iterations in results.items():  # noqa: PERF102 - names may repeat
        for outputs in iterations:
            outputs.origin = path


def is_same_array(left: Any, right: Any) -> bool:
    """Return whether two arrays have the same data type, shape and elements, NaN included."""
    a, b = np.asarray(left), np.asarray(right)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes()


def _is_plain(iteration: Any) -> bool:
    """Return whether an iteration is a plain dictionary of outputs."""
    return isinstance(iteration, dict) and not isinstance(iteration, IterationResult)


@pickle_as("polygraphy.comparator.struct")
class RunResults(KeyedList[str, IterationResult], Storable):
    """The results of several runners: a list of ``(runner name, iterations)``, which can also be
    indexed by name.

    Names may repeat (a model run twice by the same runner); a lookup finds the first run with the
    name.
    """

    key_description = "Runner"

    def append(self, elem: tuple[str, list[IterationResult]]) -> None:
        """Add a run: the name of its runner, and its iterations."""
        name, iterations = elem
        has_plain = any(map(_is_plain, iterations))
        super().append((name, self.stored_list(name, iterations)) if has_plain else elem)

    def stored_list(self, key: str, values: Iterable[IterationResult]) -> list[IterationResult]:
        """Return iterations in the form that is stored:
        plain dictionaries become `IterationResult`.
        """
        return [
            IterationResult(value, runner_name=key) if _is_plain(value) else value
            for value in values
        ]

    def add(
        self,
        out_list: Sequence[Mapping[str, Any]],
        runtime: float | None = None,
        runner_name: str | None = None,
    ) -> None:
        """Add a run computed elsewhere: one dictionary of output arrays per iteration.
        A run of the same name is replaced.

        Args:
            out_list: per iteration a dictionary from output names to arrays.
            runtime: seconds per iteration.
            runner_name: the name of the runner that produced it.
        """
        iterations = [IterationResult(outputs, runtime, runner_name) for outputs in out_list]
        self["custom_runner" if runner_name is None else runner_name] = iterations

    def split(self) -> Iterator[RunResults]:
        """Yield one RunResults per iteration, each with one iteration of every runner.

        Raises:
            UsageError: the runners have different numbers of iterations.
        """
        counts = {name: len(iterations) for name, iterations in self}
        if len(set(counts.values())) > 1:
            raise UsageError(f"Runners have different numbers of iterations: {counts}.")
        for index in range(next(iter(counts.values()), 0)):
            yield RunResults((name, [iterations[index]]) for name, iterations in self)

    @staticmethod
    def concat(runs: Iterable[RunResults]) -> RunResults:
        """Return the iterations of several results joined, runner by runner, in the order of the
        first.

        Raises:
            UsageError: the runners' names differ.
        """
        joined: RunResults | None = None
        for run in runs:
            if joined is None:
                joined = RunResults(run)
            elif joined.keys() != run.keys():
                raise UsageError(
                    f"Results of different runners cannot be concatenated: {joined.keys()} and"
                    f" {run.keys()}."
                )
            else:
                for (_, iteration_results), (_, other_iterations) in zip(joined, run):
                    iteration_results.extend(other_iterations)
        return RunResults() if joined is None else joined

    def _repr_html_(self) -> str:
        """Return the results as HTML for notebooks."""
        return results_html(self)

    @classmethod
    def load(cls, src: PathOrFile) -> RunResults:
        """Return the saved results of runners; see `Storable.load`.
        A path is kept as their origin.
        """
        results = super().load(src)
        if isinstance(src, (str, Path)):
            _name_origin(str(src), results)
        return results

    @staticmethod
    def load_streaming(path: str | Path, allow_dirs: bool = True) -> Iterator[RunResults]:
        """Yield saved results one iteration at a time, from a file or a folder of files."""
        if Path(path).is_dir() and not allow_dirs:
            raise UsageError(f"{path} is a folder; a file is required.")
        return _read_from(str(path), resolve(ResultStore).iterate(path, RunResults))


_BLOCK = 1 << 18
_FEW = 64


@frozen
class OutputValidity:
    """The numbers of NaN and infinite elements of one output with the first position of each (None
    if there are none), and its constant value if it has one; see `uniformity`."""

    name: str
    size: int
    nan: int
    inf: int
    first_nan: tuple[int, ...] | None
    first_inf: tuple[int, ...] | None
    uniform: str = ""

    def complaint(self, *, check_nan: bool, check_inf: bool) -> str:
        """Return a description of the NaN and infinite elements, with the first position.
        The result is empty if there are none.
        """
        looked_for = (
            ("NaN", self.nan, self.first_nan, check_nan),
            ("infinite", self.inf, self.first_inf, check_inf),
        )
        return ", ".join(
            f"{count} of {self.size} elements are {name}, the first at {first}"
            for name, count, first, is_asked in looked_for
            if is_asked and count
        )


def validate_outputs(outputs: IterationResult) -> list[OutputValidity]:
    """Return the validity of each output, with its numbers of NaN and infinite elements.
    Integers and strings have none.
    """
    return [_validity(name, np.asarray(array)) for name, array in outputs.items()]


def uniformity(array: np.ndarray[Any, Any]) -> str:
    """Return why an output proves little:
    ``empty``, ``all 0``, or another constant; empty if elements differ, and for a single nonzero
    element."""
    if not array.size:
        return "empty"
    first = array.flat[0]
    if array.dtype.kind == "O" or (array.size == 1 and first != 0):
        return ""
    # Compare only the first elements if they already differ, which is the usual case.
    if not np.all(array.flat[:_FEW] == first) or not np.all(array == first):
        return ""
    value = first.item() if hasattr(first, "item") else first
    return f"all {value:.4g}" if isinstance(value, float) else f"all {value!r}"


def count_non_finite(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return how many elements are NaN, and how many are infinite."""
    return _count(np.isnan, array)[0], _count(np.isinf, array)[0]


def _validity(name: str, array: np.ndarray[Any, Any]) -> OutputValidity:
    """Return the validity of one output."""
    nan, first_nan = _count(np.isnan, array)
    inf, first_inf = _count(np.isinf, array)
    return OutputValidity(name, array.size, nan, inf, first_nan, first_inf, uniformity(array))


def _count(predicate: np.ufunc, array: np.ndarray[Any, Any]) -> tuple[int, tuple[int, ...] | None]:
    """Return how many elements satisfy a predicate, and the index of the first in C order."""
    if array.dtype.kind in "biuSUOTmM":
        return 0, None
    flat = array.reshape(-1)
    count, first = 0, None
    for start in range(0, flat.size, _BLOCK):
        matches = predicate(flat[start : start + _BLOCK])
        in_block = int(np.count_nonzero(matches))
        if in_block and first is None:
            first = start + int(matches.argmax())
        count += in_block
    return count, (
        None if first is None else tuple(int(i) for i in np.unravel_index(first, array.shape))
    )


_NUMBER_AND_TIME = re.compile(r"-N\d+-[\d/]+-[\d:.]+$")
_ORIGIN = re.compile(r".+-N\d+-[\d/]+-[\d:.]+ \((.+?)\)(?: \(\d+\))?")
"""The name of a runner, and of the file that its results are from."""
_ABOUT = re.compile(r"\S+-N\d+-[\d/]+-[\d:.]+\s+\| ")
"""The name of a runner in a log line."""
_FRACTION = re.compile(r"(-N\d+-[\d/]+-\d\d:\d\d:\d\d)\.\d+$")


def kind_of_runner(name: str) -> str:
    """Return the name of a runner without number and time:
    ``onnxrt-runner``; names without them are unchanged."""
    return _NUMBER_AND_TIME.sub("", name)


def names_of_runs(runs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the display name of each run, from its runner and the file it was read from, if any:
    ``onnxrt``, ``gold.json``, or ``gold.json: onnxrt`` for a file of several runners. Equal
    names are numbered."""
    kinds = [short_names([runner])[0] for runner, _ in runs]
    paths = list(dict.fromkeys(origin for _, origin in runs if origin))
    titles = Counter(PurePath(path).name for path in paths)
    called = {path: PurePath(path).name for path in paths}
    called |= {path: path for path in paths if titles[called[path]] > 1}
    counter = Counter(origin for _, origin in dict.fromkeys(runs))
    names = [
        kind if not origin else called[origin] + (f": {kind}" if counter[origin] > 1 else "")
        for kind, (_, origin) in zip(kinds, runs)
    ]
    counts: Counter[str] = Counter()
    for at, name in enumerate(names):
        counts[name] += 1
        if counts[name] > 1:
            names[at] = f"{name} ({counts[name]})"
    return names


def make_distinct(name: str, other_name: str) -> tuple[str, str]:
    """Return two different names: the second is numbered if they are equal."""
    return name, other_name if name != other_name else f"{other_name} (2)"


_FRAMEWORKS = {"pyt": "torch"}
"""Names of runners that NVIDIA's files have, and the names of their flags here."""


def short_names(names: Iterable[str]) -> list[str]:
    """Return short names of runners that stay the same between runs:
    ``onnxrt``, and ``onnxrt (2)`` for the next of its kind."""
    counts: dict[str, int] = {}
    short = []
    for name in names:
        origin = _ORIGIN.fullmatch(name)
        kind = origin[1] if origin else kind_of_runner(name)
        if kind != name and origin is None:  # The name is generated, so it can be shortened.
            kind = kind.removesuffix("-runner")
            kind = _FRAMEWORKS.get(kind, kind)
        counts[kind] = counts.get(kind, 0) + 1
        short.append(kind if counts[kind] == 1 else f"{kind} ({counts[kind]})")
    return short


def without_runner(note: str) -> str:
    """Return a note without the name of its runner, so that equal notes compare equal."""
    match = _ABOUT.match(note)
    if match is None:
        return note
    text = note[match.end() :]
    return Note(text, note.brief) if isinstance(note, Note) else text


def label_of_runner(name: str) -> str:
    """Return the name of a runner for display: its time to the second."""
    return _FRACTION.sub(r"\1", name)


def label_of_runners(names: Iterable[str]) -> str:
    """Return the names of compared runners for display: ``this vs. that``."""
    return " vs. ".join(map(label_of_runner, names))


@port
def results_html(results: RunResults) -> str:  # type: ignore[empty-body]
    """Return results as HTML, without elements."""
