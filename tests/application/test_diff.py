"""Comparing files of saved data; what they hold, and how runs are paired, is tested with commands."""

from __future__ import annotations

import pytest

from polygraphy.adapters.fake import MemoryResultStore
from polygraphy.application.compare.reevaluating import compare_saved
from polygraphy.domain.compare import SimpleCompareFunc
from tests.application.runs import iteration, results


@pytest.fixture(autouse=True)
def _saved(store: MemoryResultStore) -> None:
    """Save a.json, and b.json, in which each iteration is further off than the one before."""
    store.save(results(a=[[1.0], [1.0], [1.0]]), "a.json")
    store.save(results(b=[[1.0], [2.0], [3.0]]), "b.json")


def test_iterations_are_compared_until_the_end_or_the_first_that_fails() -> None:
    assert compare_saved("a.json", "b.json")[0].stats() == (1, 2, 3)
    assert compare_saved("a.json", "b.json", fail_fast=True)[0].stats() == (1, 1, 2)


def test_a_comparison_function_or_several_decide() -> None:
    loose, strict = SimpleCompareFunc(atol=2.0), SimpleCompareFunc(atol=1.0)
    assert compare_saved("a.json", "b.json", compare_func=loose)
    assert not compare_saved("a.json", "b.json", compare_func=strict)
    both = compare_saved("a.json", "b.json", compare_func=[loose, strict])
    assert [each.stats() for each in both] == [(3, 0, 3), (2, 1, 3)]


def test_a_tensor_that_one_file_lacks_fails_unless_that_is_allowed(
    store: MemoryResultStore,
) -> None:
    both, one = results(a=[[1.0]]), results(b=[[1.0]])
    both["a"][0] = iteration("a", y=[1.0], z=[2.0])
    store.save(both, "both.json")
    store.save(one, "one.json")
    for files in (("both.json", "one.json"), ("one.json", "both.json")):
        assert not compare_saved(*files)
        assert compare_saved(*files, allow_missing_outputs=True)
