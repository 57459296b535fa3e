"""For tests of tools that embed this package, and of adapters of other packages.

The fakes keep what they are given in memory, record how they are used, and are strict where a real
adapter may be lenient. `bind` puts one in place of a port's usual adapter::

    store = MemoryResultStore()
    with bind(ResultStore, store):
        results.save("anywhere")

`check_runner` asks of a runner what every runner promises.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polygraphy.adapters import fake
from polygraphy.adapters.fake import *  # noqa: F403
from polygraphy.domain.errors import PolygraphyException
from polygraphy.ports.binding import bind
from polygraphy.ports.running import Runner

__all__: list[str] = []
__all__ += fake.__all__
__all__ += ["bind", "check_runner"]


def check_runner(make_runner: Callable[[], Runner], feed_dict: Mapping[str, Any]) -> None:
    """Check that a runner keeps to the life cycle of the port `polygraphy.ports.running.Runner`.

    Args:
        make_runner: makes a runner of a deterministic model that is not active yet.
        feed_dict: data that fit the model: one array per input.

    Raises:
        AssertionError: the runner breaks a promise; the message says which.
    """
    runner, other = make_runner(), make_runner()
    _check(bool(runner.name), "A runner has a name.")
    _check(runner.name != other.name, "Runners of one kind have unique names.")
    _check(not runner.is_active, "A new runner is not active: loading is left to `activate`.")
    _check(_fails(lambda: runner.infer(feed_dict)), "`infer` fails before `activate`.")
    before = {name: np.array(array) for name, array in feed_dict.items()}
    answers = []
    for _ in range(2):
        with runner:
            _check(runner.is_active, "A runner is active inside the block.")
            inputs = runner.get_input_metadata()
            _check(set(inputs) == set(feed_dict), "The metadata name the inputs.")
            answers.append(_kept(runner.infer(feed_dict)))
            answers.append(_kept(runner.infer(feed_dict)))
            seconds = runner.last_inference_time()
            _check(seconds is None or seconds > 0, "The time of an inference is positive, or None.")
        _check(not runner.is_active, "A runner is not active after the block.")
    for name, array in before.items():
        _check(bool(np.array_equal(array, feed_dict[name])), f"Input {name!r} is left alone.")
    _check(all(answers), "An inference has outputs.")
    for answer in answers[1:]:
        _check(list(answer) == list(answers[0]), "Outputs have one order.")
        same = all(_is_same(array, answers[0][name]) for name, array in answer.items())
        _check(same, "The same data have the same outputs.")
    _check(_raises_in_block(make_runner()), "An error inside the block deactivates the runner.")


def _check(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(promise)


def _fails(call: Callable[[], object]) -> bool:
    try:
        call()
    except PolygraphyException:
        return True
    return False


def _kept(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in outputs.items()}


def _is_same(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    # Bytes, so that NaN is what it is; texts are references.
    return (
        bool(np.array_equal(one, other))
        if one.dtype.hasobject
        else one.tobytes() == other.tobytes()
    )


def _raises_in_block(runner: Runner) -> bool:
    try:
        with runner:
            raise LookupError
    except LookupError:
        return not runner.is_active
