"""What objects of users may have besides what they have to have."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.calling import optional_method
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.compare.function import PairwiseCompareFunc
from polygraphy.ports.running import RunnerExtras


class Timed:
    def last_device_times(self) -> None:
        return None


class Wrapper:
    """Hands on what it does not have, as wrappers of runners do."""

    def __init__(self, wrapped: object) -> None:
        self.wrapped: Any = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def test_an_object_supports_what_it_has() -> None:
    timed = Timed()
    assert optional_method(timed, RunnerExtras.last_device_times) == timed.last_device_times
    assert optional_method(timed, RunnerExtras.get_model_facts) is None


def test_a_wrapper_supports_what_it_hands_on() -> None:
    wrapper = Wrapper(Timed())
    assert (
        optional_method(wrapper, RunnerExtras.last_device_times)
        == wrapper.wrapped.last_device_times
    )
    assert optional_method(wrapper, RunnerExtras.get_model_facts) is None


def test_a_function_need_not_have_it_and_none_is_nothing() -> None:
    function = SimpleCompareFunc()
    assert optional_method(function, PairwiseCompareFunc.grant_threads) == function.grant_threads
    assert optional_method(lambda run0, run1: {}, PairwiseCompareFunc.grant_threads) is None
    timed = Timed()
    timed.last_device_times = None  # type: ignore[assignment, method-assign]
    assert optional_method(timed, RunnerExtras.last_device_times) is None
