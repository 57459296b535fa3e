"""What everything that writes text promises, asked of each."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.fake import MemoryTextFiles
from polygraphy.adapters.files.small.work_files import DiskTextFiles
from polygraphy.domain.errors import FileError
from polygraphy.ports.binding import resolve
from polygraphy.ports.storage import TextFiles
from tests.support.examples import scaled


@frozen
class Subject:
    """An adapter, and how one looks at what it wrote."""

    files: TextFiles
    content: Callable[[str], bytes | None]
    is_executable: Callable[[str], bool]
    count: Callable[[], int]


def _disk(folder: Path) -> Subject:
    def content(path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).is_file() else None

    return Subject(
        DiskTextFiles(),
        content,
        lambda path: os.access(path, os.X_OK),
        lambda: sum(path.is_file() for path in folder.rglob("*")),
    )


def _memory(folder: Path) -> Subject:
    files = MemoryTextFiles()
    return Subject(
        files, files.files.get, lambda path: path in files.executable, lambda: len(files.files)
    )


SUBJECTS = {"disk": _disk, "memory": _memory}


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return SUBJECTS[request.param](tmp_path)


def test_the_port_is_bound_to_the_disk() -> None:
    assert isinstance(resolve(TextFiles), DiskTextFiles)


@pytest.mark.parametrize("text", ["", "text", "line\nline\n", "a\r\nb", "\u00fc \N{SNOWMAN} \x00"])
def test_text_is_written_in_utf8_as_it_is(subject: Subject, tmp_path: Path, text: str) -> None:
    path = str(tmp_path / "file.txt")
    subject.files.write(path, text)
    assert subject.content(path) == text.encode()
    assert subject.files.read(path) == text
    assert not subject.is_executable(path)


def test_what_cannot_be_read_is_named(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"gone\.txt"):
        subject.files.read(str(tmp_path / "gone.txt"))


def test_a_file_is_replaced(subject: Subject, tmp_path: Path) -> None:
    path = str(tmp_path / "file.txt")
    subject.files.write(path, "a long text")
    subject.files.write(path, "short")
    assert subject.content(path) == b"short"
    assert subject.count() == 1


def test_folders_are_made(subject: Subject, tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "folder" / "file.txt")
    subject.files.write(path, "text")
    assert subject.content(path) == b"text"


def test_a_script_is_executable(subject: Subject, tmp_path: Path) -> None:
    path = str(tmp_path / "script.py")
    subject.files.write(path, "#!/usr/bin/env python3\n", executable=True)
    assert subject.is_executable(path)
    subject.files.write(path, "pass\n")
    assert subject.is_executable(path)


def test_a_file_can_become_executable(subject: Subject, tmp_path: Path) -> None:
    path = str(tmp_path / "script.py")
    subject.files.write(path, "pass\n")
    subject.files.write(path, "pass\n", executable=True)
    assert subject.is_executable(path)


def test_a_folder_is_not_replaced(subject: Subject, tmp_path: Path) -> None:
    subject.files.write(str(tmp_path / "folder" / "file.txt"), "text")
    with pytest.raises(FileError, match="folder"):
        subject.files.write(str(tmp_path / "folder"), "text")
    assert subject.content(str(tmp_path / "folder" / "file.txt")) == b"text"


def test_a_file_is_no_folder(subject: Subject, tmp_path: Path) -> None:
    subject.files.write(str(tmp_path / "file"), "text")
    with pytest.raises(FileError):
        subject.files.write(str(tmp_path / "file" / "inside"), "text")
    assert subject.content(str(tmp_path / "file")) == b"text"


def test_what_cannot_be_encoded_leaves_the_old_text(subject: Subject, tmp_path: Path) -> None:
    path = str(tmp_path / "file.txt")
    subject.files.write(path, "old")
    with pytest.raises(FileError):
        subject.files.write(path, "new" * 10000 + "\udc80")
    assert subject.content(path) == b"old"
    assert subject.count() == 1


@given(text=st.text())
@settings(max_examples=scaled(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives(subject: Subject, tmp_path: Path, text: str) -> None:
    path = str(tmp_path / "file.txt")
    subject.files.write(path, text)
    assert subject.content(path) == text.encode()


# What a disk can do on top.


def test_a_full_disk_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    DiskTextFiles().write(str(path), "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device"):
        DiskTextFiles().write(str(path), "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    DiskTextFiles().write(str(path), "old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        DiskTextFiles().write(str(path), "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("target.txt")
    DiskTextFiles().write(str(link), "new")
    assert link.is_symlink()
    assert (tmp_path / "target.txt").read_text() == "new"


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o700), (0o644, 0o755), (0o640, 0o750)])
def test_who_may_read_a_script_may_run_it(tmp_path: Path, mode: int, expected: int) -> None:
    path = tmp_path / "script.py"
    path.write_text("old")
    path.chmod(mode)
    DiskTextFiles().write(str(path), "new", executable=True)
    assert stat.S_IMODE(path.stat().st_mode) == expected


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        DiskTextFiles().write(str(tmp_path / "file.txt"), "text")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == 0o640


def test_memory_refuses_what_it_is_reported_to(tmp_path: Path) -> None:
    files = MemoryTextFiles(unwritable=["./secret.txt"])
    with pytest.raises(FileError) as caught:
        files.write("secret.txt", "text")
    assert caught.value.path == "secret.txt"
    assert files.files == {}
