"""Computing as much as possible where some of it cannot be computed."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.search.subsets import bisect_batch


@given(st.lists(st.integers(0, 50), unique=True), st.sets(st.integers(0, 50), max_size=4))
def test_everything_else_is_computed(numbers: list[int], bad: set[int]) -> None:
    names = [str(number) for number in numbers]
    calls = []

    def compute(chosen: Sequence[str]) -> dict[str, int] | None:
        calls.append(chosen)
        return None if bad & set(map(int, chosen)) else {name: int(name) for name in chosen}

    found, failed = bisect_batch(names, compute)
    assert failed == [name for name in names if int(name) in bad]
    assert found == {name: int(name) for name in names if int(name) not in bad}
    assert len(calls) <= 1 + 2 * len(failed) * (max(len(names), 1)).bit_length()
    assert len(calls) == (1 if names else 0) or failed
