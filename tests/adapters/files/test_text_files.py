"""Text files on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.files.small.work_files import read_text, write_text
from polygraphy.domain.errors import FileError
from tests.support.examples import scaled


@pytest.mark.parametrize("text", ["", "text", "line\nline\n", "a\r\nb", "\u00fc \N{SNOWMAN} \x00"])
def test_text_is_written_in_utf8_as_it_is(tmp_path: Path, text: str) -> None:
    path = str(tmp_path / "file.txt")
    write_text(path, text)
    assert Path(path).read_bytes() == text.encode()
    assert read_text(path) == text
    assert not os.access(path, os.X_OK)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"gone\.txt"):
        read_text(str(tmp_path / "gone.txt"))


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "file.txt")
    write_text(path, "a long text")
    write_text(path, "short")
    assert Path(path).read_bytes() == b"short"
    assert len(list(tmp_path.iterdir())) == 1


def test_folders_are_made(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "folder" / "file.txt")
    write_text(path, "text")
    assert Path(path).read_bytes() == b"text"


def test_a_script_is_executable(tmp_path: Path) -> None:
    path = str(tmp_path / "script.py")
    write_text(path, "#!/usr/bin/env python3\n", executable=True)
    assert os.access(path, os.X_OK)
    write_text(path, "pass\n")
    assert os.access(path, os.X_OK)


def test_a_file_can_become_executable(tmp_path: Path) -> None:
    path = str(tmp_path / "script.py")
    write_text(path, "pass\n")
    write_text(path, "pass\n", executable=True)
    assert os.access(path, os.X_OK)


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    write_text(str(tmp_path / "folder" / "file.txt"), "text")
    with pytest.raises(FileError, match="folder"):
        write_text(str(tmp_path / "folder"), "text")
    assert Path(str(tmp_path / "folder" / "file.txt")).read_bytes() == b"text"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    write_text(str(tmp_path / "file"), "text")
    with pytest.raises(FileError):
        write_text(str(tmp_path / "file" / "inside"), "text")
    assert Path(str(tmp_path / "file")).read_bytes() == b"text"


def test_other_bytes_in_names_are_escaped(tmp_path: Path) -> None:
    path = str(tmp_path / "file.md")
    write_text(path, "model \udc80.onnx")
    assert Path(path).read_bytes() == rb"model \udc80.onnx"


def test_what_cannot_be_encoded_leaves_the_old_program(tmp_path: Path) -> None:
    path = str(tmp_path / "file.txt")
    write_text(path, "old")
    with pytest.raises(FileError):
        write_text(path, "new" * 10000 + "\udc80", executable=True)
    assert Path(path).read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


@given(text=st.text())
@settings(max_examples=scaled(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives(tmp_path: Path, text: str) -> None:
    path = str(tmp_path / "file.txt")
    write_text(path, text)
    assert Path(path).read_bytes() == text.encode()


def test_a_full_disk_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    write_text(str(path), "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device"):
        write_text(str(path), "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    write_text(str(path), "old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(str(path), "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("target.txt")
    write_text(str(link), "new")
    assert link.is_symlink()
    assert (tmp_path / "target.txt").read_text() == "new"


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o700), (0o644, 0o755), (0o640, 0o750)])
def test_who_may_read_a_script_may_run_it(tmp_path: Path, mode: int, expected: int) -> None:
    path = tmp_path / "script.py"
    path.write_text("old")
    path.chmod(mode)
    write_text(str(path), "new", executable=True)
    assert stat.S_IMODE(path.stat().st_mode) == expected


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_text(str(tmp_path / "file.txt"), "text")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == 0o640
