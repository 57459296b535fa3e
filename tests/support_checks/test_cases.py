"""`for_each` runs every case, and says which ones failed."""

from __future__ import annotations

import inspect

import pytest

from tests.support.cases import for_each


def test_all_cases_run_and_the_ones_that_fail_are_named() -> None:
    seen = []

    @for_each("one, other", [("a", 1), ("b", 2), ("c", 3)])
    def check(one: str, other: int, fixture: str) -> None:
        seen.append(one + fixture)
        assert other == 2

    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(AssertionError, match=r"(?s)^2 of 3 cases failed:\n'a', 1: .*\n'c', 3: "):
        check(fixture="!")
    assert seen == ["a!", "b!", "c!"]
