"""Files that a command line names twice."""

from __future__ import annotations

import pytest

from polygraphy.cli.errors import CommandLineError
from polygraphy.cli.paths import check_paths


def test_different_paths_and_missing_ones_are_fine() -> None:
    check_paths([("MODEL", "a"), ("--load", "b")], [("--save", "c"), ("--log", None)], "run")
    check_paths([("--load", "a"), ("--load", "a")], [], "run")


@pytest.mark.parametrize("path", ["a/b", "./a/b", "a//b", "a/c/../b"])
def test_the_same_place_under_another_name_is_seen(path: str) -> None:
    with pytest.raises(CommandLineError, match="--load and --save name the same path"):
        check_paths([("--load", "a/b")], [("--save", path)], "run")
    with pytest.raises(CommandLineError, match="--one and --two name the same path"):
        check_paths([], [("--one", "a/b"), ("--two", path)], "run")
