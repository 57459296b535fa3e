"""What objects of users may have besides what they have to have."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.calling import supporting
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.compare.function import JudgesAverages, Labelled, UsesThreads
from polygraphy.ports.running import KnowsModel, TimesDevice


class Timed:
    def last_device_times(self) -> None:
        return None


class Wrapper:
    """Hands on what it does not have, as wrappers of runners do."""

    def __init__(self, wrapped: object) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def test_an_object_supports_what_it_has() -> None:
    timed = Timed()
    assert supporting(timed, TimesDevice) is timed
    assert supporting(timed, KnowsModel) is None


def test_a_wrapper_supports_what_it_hands_on() -> None:
    wrapper = Wrapper(Timed())
    assert supporting(wrapper, TimesDevice) is wrapper
    assert supporting(wrapper, KnowsModel) is None


def test_attributes_count_and_none_is_nothing() -> None:
    function = SimpleCompareFunc()
    for protocol in (Labelled, JudgesAverages, UsesThreads):
        assert supporting(function, protocol) is function
    assert supporting(lambda run0, run1: {}, Labelled) is None
    timed = Timed()
    timed.last_device_times = None  # type: ignore[assignment, method-assign]
    assert supporting(timed, TimesDevice) is None
