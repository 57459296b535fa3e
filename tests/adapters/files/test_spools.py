"""What a use case may ask of what opens spools."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.files.small.spool import open_spool
from polygraphy.domain.errors import FileError


@given(pieces=st.lists(st.binary(max_size=50), max_size=8), data=st.data())
def test_what_was_put_comes_back(pieces: list[bytes], data: st.DataObject) -> None:
    spool, other = open_spool(), open_spool()
    tickets: list[int] = []
    for piece in pieces:
        tickets.append(spool.put(piece))
        other.put(piece[::-1])
        asked = data.draw(st.integers(0, len(tickets) - 1))
        assert spool.take(tickets[asked]) == pieces[asked]
    assert [spool.take(ticket) for ticket in tickets] == pieces


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = open_spool()
    assert spool.take(spool.put(b"x" * 100_000)) == b"x" * 100_000
    assert list(tmp_path.iterdir()) == []  # The file has no name.


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(FileError, match="write to"):
        open_spool().put(b"four")
