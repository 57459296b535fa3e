"""Contract suites: what every adapter of a port promises, asked of one.

A suite raises an AssertionError that names the promise that is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.domain.errors import FileError, PolygraphyException
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.datatype import DataType, DataTypeConverter
from polygraphy.ports.running import Runner


def check_runner(make_runner: Callable[[], Runner], feed_dict: Mapping[str, Any]) -> None:
    """Raise AssertionError unless a runner follows the life cycle of the port
    `polygraphy.ports.running.Runner`.

    Args:
        make_runner: makes a runner of a deterministic model that is not active yet.
        feed_dict: data that fit the model: one array per input.

    Raises:
        AssertionError: the runner breaks a promise; the message says which.
    """
    runner, other_runner = make_runner(), make_runner()
    _check(bool(runner.name), "A runner has a name.")
    _check(runner.name != other_runner.name, "Runners of one kind have unique names.")
    _check(not runner.is_active, "A new runner is not active: loading is left to `activate`.")
    _check(_fails(lambda: runner.infer(feed_dict)), "`infer` fails before `activate`.")
    before = {name: np.array(array) for name, array in feed_dict.items()}
    answers = []
    for _ in range(2):
        with runner:
            _check(runner.is_active, "A runner is active inside the block.")
            inputs = runner.get_input_metadata()
            _check(set(inputs) == set(feed_dict), "The metadata names the inputs.")
            answers.append(_copy_outputs(runner.infer(feed_dict)))
            answers.append(_copy_outputs(runner.infer(feed_dict)))
            seconds = runner.last_inference_time()
            _check(seconds is None or seconds > 0, "The time of an inference is positive, or None.")
        _check(not runner.is_active, "A runner is not active after the block.")
    for name, array in before.items():
        unchanged = _is_same_array(array, np.asarray(feed_dict[name]))
        _check(unchanged, f"Input {name!r} is not modified.")
    _check(all(answers), "An inference has outputs.")
    for answer in answers[1:]:
        _check(list(answer) == list(answers[0]), "Outputs are always in the same order.")
        is_same = all(_is_same_array(array, answers[0][name]) for name, array in answer.items())
        _check(is_same, "Equal data gives equal outputs.")
    _check(
        _deactivates_on_error(make_runner()), "An error inside the block deactivates the runner."
    )


def check_loader(
    make_loader: Callable[[], Callable[[], Any]],
    make_broken: Callable[[], Callable[[], Any]] | None = None,
) -> None:
    """Raise AssertionError unless a loader does its work on each call.

    Args:
        make_loader: makes a loader.
        make_broken: makes a loader of something that is missing or damaged (default: not checked).

    Raises:
        AssertionError: the loader breaks a promise; the message says which.
    """
    loader = make_loader()
    first, second = loader(), loader()
    _check(first is not None, "A loader returns what it loads.")
    _check(type(first) is type(second), "A loader can be called again.")
    _check(type(make_loader()()) is type(first), "Loaders of one kind load values of one type.")
    if make_broken is not None:
        broken = make_broken()  # Not where errors are caught: the constructor loads nothing.
        _check(_fails(broken), "A loader that fails raises a PolygraphyException at the call.")


def check_data_types(converter: DataTypeConverter) -> None:
    """Raise AssertionError unless a converter converts data types in both directions.

    Args:
        converter: of the data types of one library; see `polygraphy.extension`.

    Raises:
        AssertionError: the converter breaks a promise; the message says which.
    """
    known_pairs = [(entry, converter.to_native(entry)) for entry in DataType]
    known_pairs = [(entry, native) for entry, native in known_pairs if native is not None]
    _check(bool(known_pairs), "A library has at least one of the data types.")
    for entry, native in known_pairs:
        _check(converter.from_native(native) is entry, f"{entry} is translated there and back.")
    natives = [native for _, native in known_pairs]
    is_unique = all(
        native != other_value for i, native in enumerate(natives) for other_value in natives[:i]
    )
    _check(is_unique, "No two data types have the same name.")
    _check(converter.from_native(object()) is None, "A value that is not a data type gives None.")


def check_result_store(make_store: Callable[[], ResultStore], folder: str | Path) -> None:
    """Raise AssertionError unless a store returns saved values unchanged, and reports missing ones
    by name.

    Args:
        make_store: makes a store; stores of one place see the same files, or one store is returned
            each time.
        folder: an empty folder, where the store keeps files in one.

    Raises:
        AssertionError: the store breaks a promise; the message says which.
    """
    results = RunResults(
        [("runner", [IterationResult({"y": np.full((2, 3), i, np.float32)}) for i in range(2)])]
    )
    feeds = [{"x": np.array([i, np.nan], np.float32), "n": np.array(i)} for i in range(3)]
    store, file = make_store(), str(Path(folder, "results.json"))
    store.save(results, file)
    _check(
        _are_same_results(make_store().load(file, RunResults), results),
        "Saved values are loaded unchanged.",
    )
    text = store.dumps(results)
    _check(
        _are_same_results(store.loads(text, RunResults), results), "Text is read as it was written."
    )
    for name in ("feeds.json", "feeds"):
        path = str(Path(folder, name))
        with store.writer(path, dict) as writer:
            for feed in feeds:
                writer.add(feed)
        read = list(make_store().iterate(path, dict))
        _check(
            len(read) == len(feeds)
            and all(
                _is_same_array(feed[k], values[k])
                for feed, values in zip(feeds, read)
                for k in feed
            ),
            f"The iterations of {name!r} are read one by one, in order.",
        )
        _check(make_store().look_into(path).kind is dict, "A store reports the kind of a file.")
    missing = str(Path(folder, "missing.json"))
    for call in (
        lambda: store.load(missing, RunResults),
        lambda: store.iterate(missing, dict),
        lambda: store.loads("{", RunResults),
        lambda: store.load(str(Path(folder, "feeds.json")), RunResults),
    ):
        _check(_fails(call, FileError), "A missing, damaged or different file raises FileError.")


def _are_same_results(results: RunResults, other_results: RunResults) -> bool:
    """Return whether two results have the same runners and outputs, bit for bit."""
    return [name for name, _ in results] == [name for name, _ in other_results] and all(
        len(iteration_results) == len(its)
        and all(
            list(left) == list(right) and all(_is_same_array(left[k], right[k]) for k in left)
            for left, right in zip(iteration_results, its)
        )
        for (_, iteration_results), (_, its) in zip(results, other_results)
    )


def _check(holds: bool, promise: str) -> None:
    """Raise AssertionError, with the name of the promise, unless it holds."""
    if not holds:
        raise AssertionError(promise)


def _fails(
    call: Callable[[], object], kind: type[PolygraphyException] = PolygraphyException
) -> bool:
    """Return whether a call raises an exception of a kind."""
    try:
        call()
    except kind:
        return True
    return False


def _copy_outputs(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of outputs."""
    return {name: np.array(array) for name, array in outputs.items()}


def _is_same_array(array: Any, other_array: Any) -> bool:
    """Return whether two arrays have the same type, shape and bits."""
    if array.dtype != other_array.dtype or array.shape != other_array.shape:
        return False
    # As bytes, so that NaN equals NaN; texts are references.
    return (
        bool(np.array_equal(array, other_array))
        if array.dtype.hasobject
        else array.tobytes() == other_array.tobytes()
    )


def _deactivates_on_error(runner: Runner) -> bool:
    """Return whether the runner is deactivated by an error in its `with` block."""
    try:
        with runner:
            raise LookupError
    except LookupError:
        return not runner.is_active
