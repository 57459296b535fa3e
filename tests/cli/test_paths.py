"""Files that a command line names twice."""

from __future__ import annotations

from pathlib import Path

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


def test_a_link_to_what_is_read_is_seen(tmp_path: Path) -> None:
    model, link = tmp_path / "model.onnx", tmp_path / "link.onnx"
    model.touch()
    link.symlink_to(model)
    with pytest.raises(CommandLineError, match="MODEL and --output name the same path"):
        check_paths([("MODEL", str(model))], [("--output", str(link))], "convert")


@pytest.mark.parametrize("path", ["\0", "x" * 100_000, ""])
def test_impossible_paths_are_left_to_whoever_opens_them(path: str) -> None:
    check_paths([("MODEL", "a")], [("--output", path)], "convert")
