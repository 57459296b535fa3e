"""Errors of user code name its lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from polygraphy.adapters.os.paths import readable_file
from polygraphy.mod.scripts import user_frame


def caught(function: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as failed:
        function()
    # From where the function begins, as if it had been called by the package.
    failed.value.__traceback__ = failed.value.__traceback__.tb_next  # type: ignore[union-attr]
    return failed.value


def test_the_innermost_line_of_the_user_counts() -> None:
    def inner() -> Any:
        return json.loads("no JSON")

    line = inner.__code__.co_firstlineno + 1
    assert user_frame(caught(inner)) == f" (test_user_frame.py, line {line})"


def test_lines_of_packages_and_of_code_without_a_file_do_not() -> None:
    namespace: dict[str, Any] = {}
    exec(compile("def fail():\n    raise ValueError", "<made>", "exec"), namespace)
    for function in (namespace["fail"], lambda: readable_file("gone")):
        error = caught(function)
        while error.__traceback__ and error.__traceback__.tb_frame.f_code.co_filename == __file__:
            error.__traceback__ = error.__traceback__.tb_next
        assert user_frame(error) == ""
    assert user_frame(ValueError()) == ""
