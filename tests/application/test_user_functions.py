from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polygraphy.backend.common import InvokeFromScript
from polygraphy.comparator import Comparator, RunResults
from polygraphy.domain.calling import check_signature
from polygraphy.domain.errors import InconclusiveError, UsageError
from tests.application.runs import results


class Callable:
    def __call__(self, only: Any) -> dict[str, bool]:
        return {"y": True}


def test_a_function_that_takes_something_else_is_located_where_it_is() -> None:
    def mine(first: Any) -> dict[str, bool]:
        return {"y": True}

    for function in (mine, Callable()):
        with pytest.raises(
            UsageError, match=r"test_user_functions\.py, line \d+\).*too many positional"
        ):
            Comparator.compare_accuracy(results(a=[1], b=[1]), compare_func=function)
    with pytest.raises(UsageError, match=r"post-processing function.*missing a required"):
        Comparator.postprocess(results(a=[1]), lambda one, two: one)
    check_signature(max, "function", "a number")
    check_signature(lambda *every: every, "function", "one", "two")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "load_data",
            r"load_data \(.*mine\.py, line 1\) is called with no argument.* no argument\.",
        ),
        ("Loader", r"class Loader .*called with no argument.*'folder'"),
    ],
)
def test_a_script_is_named_that_cannot_be_called(name: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "def load_data(folder):\n    return []\n"
        "class Loader:\n    def __init__(self, folder):\n        self.folder = folder\n"
    )
    with pytest.raises(UsageError, match=message):
        InvokeFromScript(str(path), name)()
    assert InvokeFromScript(str(path), "load_data")("a folder") == []
    with pytest.raises(UsageError, match=r"a str and an int.*It must accept 2 arguments"):
        InvokeFromScript(str(path), "load_data")("a folder", 1)


def test_an_error_inside_a_function_is_its_own() -> None:
    def broken(first: Any, second: Any) -> dict[str, bool]:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        Comparator.compare_accuracy(results(a=[1], b=[1]), compare_func=broken)


def test_a_function_that_answers_about_nothing_checks_nothing() -> None:
    for given in (results(a=[1], b=[1]), iter([results(a=[1], b=[1])])):
        with pytest.raises(InconclusiveError, match="returned no verdicts"):
            Comparator.compare_accuracy(given, compare_func=lambda first, second: {})


def test_sequences_are_not_compared() -> None:
    runs = RunResults(results(a=[1], b=[1]))
    runs[0][1][0]["y"] = [[1.0, 2.0], [1.0]]
    verdicts = Comparator.compare_accuracy(runs)
    assert not verdicts
    reason = verdicts[0][0][1][0]["y"].reason
    assert "is a sequence of tensors whose shapes differ" in reason
