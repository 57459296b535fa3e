"""The pages for people who change this package name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PATH = re.compile(r"`([\w./*-]+/[\w./*-]*|[\w-]+\.(?:py|md|toml))(?::\w+)?`")
_FOLDERS = ("", "polygraphy", "polygraphy/adapters", "polygraphy/adapters/onnx/storage")


def named_paths(page: str) -> list[str]:
    """Return the paths that a page names, without those that stand for a name to be chosen."""
    found = _PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    return [path for path in found if "X" not in path and not path.startswith("polygraphy.")]


@pytest.mark.parametrize("page", ["docs/development/architecture.md", "CONTRIBUTING.md"])
def test_paths_are_there(page: str) -> None:
    paths = named_paths(page)
    assert len(paths) > 3
    missing = [
        path for path in paths if not any(any((ROOT / each).glob(path)) for each in _FOLDERS)
    ]
    assert not missing


def test_a_path_that_is_not_there_is_found() -> None:
    assert _PATH.findall("`cli/options/model.py` and `wire.py:parse`") == [
        "cli/options/model.py",
        "wire.py",
    ]
