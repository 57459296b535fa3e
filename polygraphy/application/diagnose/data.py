"""Data that show what is wrong: of several seeds, and of both signs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.subprocesses import WarmParty, run_in_subprocess
from polygraphy.binding import resolve
from polygraphy.domain.data.lengths import longer_inputs
from polygraphy.domain.data.loading import describe_model, fit_with_notes, iterate_feeds
from polygraphy.domain.data.synthesis import DEFAULT_SEED, DataLoader
from polygraphy.domain.diagnosis.closeness import has_nan
from polygraphy.domain.diagnosis.words import errors, reasons
from polygraphy.domain.errors import InputError, PolygraphyException
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.quantization.input_ranges import quantized_input_ranges
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.precision import is_float
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.diagnosing import Compute, NarrowModel, SuspectedParty
from polygraphy.ports.editing import OpenModel
from polygraphy.ports.machine import free_memory
from polygraphy.ports.reporting import Console

_LENGTHS = (8, 32)
"""The fewest and the most combinations of other lengths that are tried."""
_SHARE = 8
"""One part in this number of the memory holds the data on which backends are compared."""
_MANY = 1000
"""Input sets after which the user may wonder why there is no answer yet."""
_PARTS = 4
"""One part in this number of the free memory is used to try half precision."""
_RANGES = ((-1.0, 1.0), (-3.0, 3.0))
"""Ranges of generated inputs beside the default, 0 to 1: both signs, and values that saturate."""
LeaveOut = Callable[[str], None]
"""Gets what was asked for and is not used, in words."""


def choose_feeds(
    model: OpenModel | NarrowModel,
    data_loader: Any,
    inputs: TensorMetadata | None = None,
    fits: Callable[[Sequence[Mapping[str, Any]]], bool] = lambda feeds: True,
    is_varied: bool = True,
) -> list[dict[str, Any]]:
    """Return the input sets to run a model on, as feed dictionaries.

    Args:
        model: the model.
        data_loader: the source of the data (default: generated data).
        inputs: the shapes and types of generated data, instead of those of the model.
        fits: whether so many of those that were given may be used (default: all), the last of
            which is left out otherwise.
        is_varied: whether made-up data are of several seeds and signs where nothing else was asked.

    Raises:
        UsageError: there are none.
        InputError: they do not fit the model.
    """
    loader = DataLoader() if data_loader is None else data_loader
    loaders = _varied_loaders(loader, model) if is_varied else [loader]
    feeds: list[dict[str, Any]] = []
    seen: set[str] = set()
    for loader in loaders:
        describe_model(loader, model.inputs if inputs is None else inputs, model.facts)
        given_loader: Any = loader
        is_function = callable(given_loader) and not hasattr(given_loader, "__iter__")
        for feed in iterate_feeds(given_loader() if is_function else given_loader):
            note = resolve(Console).note
            fitted, _ = fit_with_notes(feed, model.inputs, note, seen)
            if feeds and len(loaders) == 1 and not fits([*feeds, fitted]):
                return feeds
            feeds.append(dict(fitted))
            if len(feeds) == _MANY:
                resolve(Console).note(errors.many_input_sets(_MANY))
    if not feeds:
        raise errors.no_data()
    return feeds


def cast_floats(value: Any, metadata: MetadataTuple | None) -> Any:
    """Return an array of floating-point numbers in the floating-point type of an input.
    Other arrays are unchanged."""
    dtype = None if metadata is None else metadata.dtype
    if dtype is None or not dtype.is_floating or not is_float(value):
        return value
    return value.astype(dtype.numpy(), copy=False)


def feeds_that_run(
    model: OpenModel | NarrowModel,
    data_loader: Any,
    runs: Callable[[dict[str, Any]], bool],
    **options: Any,
) -> list[dict[str, Any]]:
    """Return input data on which a model runs.
    Dynamic dimensions without a given length get the first length that works, else 1.

    Raises:
        UsageError: there are none.
        InputError: they do not fit the model.
    """
    first = choose_feeds(model, data_loader, **options)
    is_made_up = data_loader is None or isinstance(data_loader, DataLoader)
    tried = [_shapes(first[0])]
    most = 0
    for inputs in longer_inputs(model.inputs) if is_made_up else ():
        try:
            feeds = choose_feeds(model, data_loader, inputs, **options)
        except InputError:  # The requested shapes do not fit these.
            continue
        if _shapes(feeds[0]) in tried:
            continue
        if len(tried) == 1:
            if runs(first[0]):
                break
            most = _most_lengths(model)
        if len(tried) > most:
            break
        tried.append(_shapes(feeds[0]))
        if runs(feeds[0]):
            return feeds
    return first


def _most_lengths(model: OpenModel | NarrowModel) -> int:
    """Return the maximum number of combinations of lengths to try; each may load the model."""
    graph = getattr(model, "graph", None)
    weights = graph.constants.values() if isinstance(graph, Graph) else ()
    return int(RunBudget.for_bytes(sum(weight.nbytes for weight in weights), *_LENGTHS).runs)


class StepData(list[dict[str, Any]]):
    """The inputs of several steps, with states, each as an independent input set.

    Attributes:
        options: the options of a command line that runs these steps.
    """

    def __init__(self, feeds: Iterable[dict[str, Any]], options: Mapping[str, Any]) -> None:
        """Set the inputs of the steps, and the options that recreate them."""
        super().__init__(feeds)
        self.options = options


def with_data_loader(case: Case, data_loader: Any) -> Case:
    """Return a case that knows the input shapes of its data, and whether they are generated."""
    are_generated = isinstance(data_loader, DataLoader)
    return evolve(
        case,
        is_made_up=data_loader is None or are_generated,
        are_shapes_open=data_loader is None or (are_generated and not data_loader.has_shapes),
    )


def choose_feeds_for_parties(
    case: Case, data_loader: Any, *, are_saved: bool = False
) -> list[dict[str, Any]]:
    """Return input data on which all backends run without NaN from integers (such as an empty
    mask). All given input sets are used, as far as memory allows.
    """

    def is_fit(compute: Compute, feed: dict[str, Any]) -> bool:
        """Return whether a computation accepts an input set, without a NaN that only integer
        inputs cause.
        """
        try:
            values = compute(feed)
        except REFUSALS as error:
            if getattr(error, "is_crash", False):
                raise
            return False
        return not _has_nan_from_integers(feed, [values.get(name) for name in case.model.outputs])

    def accepts(party: SuspectedParty, feed: dict[str, Any]) -> bool:
        """Return whether a backend accepts an input set.
        The result is True if the model itself cannot be loaded."""
        try:
            if not party.rewrites or isinstance(party, WarmParty):
                return is_fit(case.load(party), feed)
            # The backend may crash when it loads the model.
            fits = run_in_subprocess(lambda: is_fit(party.load(case.model.given), feed), party)
            case.load(party)
        except REFUSALS:  # The backend cannot load the model, or crashes.
            return True
        return fits

    def all_accept(feed: dict[str, Any]) -> bool:
        """Return whether all backends accept an input set."""
        return all(accepts(party, feed) for party in case.parties)

    fits = _memory_check(case.resident_limit, case.record_left_out, " (--memory-budget)")
    return feeds_that_run(case.model, data_loader, all_accept, fits=fits, is_varied=not are_saved)


def _memory_check(
    room: int, leave_out: LeaveOut, remedy: str = ""
) -> Callable[[Sequence[Mapping[str, Any]]], bool]:
    """Return a function that returns whether input sets fit in memory,
    and reports it if some do not.

    Args:
        room: the bytes of memory that there are.
        leave_out: gets what was asked for and is not used, in words.
        remedy: the advice on how to get more memory.
    """

    size = counted = 0  # Only new input sets are measured at each call.

    def fits(feeds: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether input sets fit in memory; note it if they do not."""
        nonlocal size, counted
        if len(feeds) <= counted:
            size = counted = 0
        new_arrays = (array for feed in feeds[counted:] for array in feed.values())
        size += sum(getattr(array, "nbytes", 0) for array in new_arrays)
        counted = len(feeds)
        if size <= room // _SHARE:
            return True
        leave_out(reasons.input_sets_cut(len(feeds) - 1, remedy))
        return False

    return fits


def choose_feeds_for_half(
    model: NarrowModel, data_loader: Any, leave_out: LeaveOut = lambda reason: None
) -> list[dict[str, Any]]:
    """Return input data for a half-precision trial; see `feeds_that_run`.
    Input sets that do not fit in memory are reported to `leave_out`.
    """

    def accepts(feed: dict[str, Any]) -> bool:
        """Return whether the float32 model accepts an input set, without a NaN that only integer
        inputs cause.
        """
        try:
            return not _has_nan_from_integers(feed, model.load(plain=True)(feed).values())
        except PolygraphyException:
            return False

    fits = _memory_check(free_memory() // _PARTS, leave_out)
    return feeds_that_run(model, data_loader, accepts, fits=fits)


def _has_nan_from_integers(feed: Mapping[str, Any], outputs: Iterable[Any]) -> bool:
    """Return whether outputs are NaN because of integer inputs, such as a mask of zeros."""
    return not all(map(is_float, feed.values())) and any(map(has_nan, outputs))


def _shapes(feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shape of each array; None if it has none."""
    return {name: getattr(array, "shape", None) for name, array in feed.items()}


def data_options(
    model: OpenModel, data_loader: Any, number: int, feed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the command-line options that recreate an input set from `choose_feeds`.
    The result is empty if the data have another source.
    """
    if isinstance(data_loader, StepData):
        return dict(data_loader.options)
    paths = getattr(data_loader, "paths", None)
    if paths:
        preprocess = getattr(data_loader, "preprocess", None)
        return {"load_inputs": tuple(map(str, paths)), "preprocess": preprocess}
    if data_loader is not None and not isinstance(data_loader, DataLoader):
        script = getattr(data_loader, "script", None)
        return {"data_loader_script": script} if isinstance(script, str) else {}
    loaders = _varied_loaders(DataLoader() if data_loader is None else data_loader, model)
    loader = loaders[number] if len(loaders) > 1 else loaders[0]
    options: dict[str, Any] = {}
    if loader.seed != DEFAULT_SEED:
        options["seed"] = loader.seed
    if loader.iterations > 1:
        options["iterations"] = loader.iterations
    if loader.is_range_given:
        options["val_range"] = loader.val_range
    shapes = {
        name: (tuple(feed[name].shape),)
        for name, meta in model.inputs.items()
        if name in feed and (meta.shape is None or is_shape_dynamic(meta.shape))
    }
    return {**options, "input_shapes": shapes} if shapes else options


def _varied_loaders(loader: Any, model: OpenModel | NarrowModel) -> list[Any]:
    """Return loaders of positive and of signed random data; a user's own loader is the only one.

    Signed data of a quantized input have the range that its quantization represents: a larger one
    shows how it was calibrated, not what the model computes.
    """
    if not isinstance(loader, DataLoader) or loader.iterations > 1 or loader.is_range_given:
        return [loader]
    graph = getattr(model, "graph", None)
    ranges = quantized_input_ranges(graph) if isinstance(graph, Graph) else {}
    floats = [
        name for name, meta in model.inputs.items() if meta.dtype is None or meta.dtype.is_floating
    ]
    return [
        loader,
        *(
            loader.with_seed(
                loader.seed + number,
                {name: ranges.get(name, bounds) for name in floats} if floats else None,
            )
            for number, bounds in enumerate(_RANGES, 1)
        ),
    ]
