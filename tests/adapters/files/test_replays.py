"""Tactic replays in folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy.adapters.files.small.debug_replays import (
    load_tactic_replays,
)
from polygraphy.adapters.files.small.work_files import path_exists
from polygraphy.domain.errors import FileError
from tests.support import replays


def tactics(path: Path) -> list[int]:
    loaded = load_tactic_replays(str(path))
    return [algorithm.tactic for replay in loaded for algorithm in replay.values()]


def test_files_are_found_in_folders_in_order(tmp_path: Path) -> None:
    for name, tactic in (("b.json", 2), ("a.cache", 1), ("deep/er/c.json", 3)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        replays.write(tmp_path / name, {"conv": replays.algorithm(tactic)})
    assert tactics(tmp_path) == [1, 2, 3]
    assert tactics(tmp_path / "b.json") == [2]


def test_what_lies_beside_them_is_left_out(tmp_path: Path) -> None:
    replays.write(tmp_path / "r.json", {"conv": replays.algorithm(1)})
    (tmp_path / "0.engine").write_bytes(b"ftrt\x00\x01")
    (tmp_path / "empty.json").touch()
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "broken.json").write_text('{"replay": ')
    assert tactics(tmp_path) == [1]
    with pytest.raises(FileError):
        tactics(tmp_path / "other.json")
    with pytest.raises(FileError, match="does not exist"):
        tactics(tmp_path / "missing")


def test_existence(tmp_path: Path) -> None:
    assert path_exists(str(tmp_path))
    assert not path_exists(str(tmp_path / "x"))
