"""Whose fault it is when a file cannot be written."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

from polygraphy.adapters.os import paths
from polygraphy.adapters.os.paths import (
    atomic_file,
    check_writable,
    create_temporary_file,
    readable_file,
)
from polygraphy.domain.errors import FileError


def test_an_error_about_another_file_goes_on_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("before", encoding="utf-8")
    missing = tmp_path / "elsewhere" / "source"
    with pytest.raises(FileNotFoundError) as raised, atomic_file(target) as stream:
        stream.write(missing.read_bytes())
    assert raised.value.filename == str(missing)
    assert target.read_text(encoding="utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_an_empty_file_is_filled_by_one_of_two_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the lock, another process writes more than this one."""

    def is_empty_before_another_writes(path: Path) -> bool:
        target.write_bytes(b"other program")
        return path == target

    target = tmp_path / "target"
    target.touch()
    with atomic_file(target) as stream:
        stream.write(b"mine")
        monkeypatch.setattr(paths, "is_empty_file", is_empty_before_another_writes)
    assert target.read_bytes() == b"mine"


def test_a_full_disk_is_about_the_file_that_is_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with (
        pytest.raises(FileError, match=r"Could not write .*target: No space left"),
        atomic_file(target),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not target.exists()


def test_a_folder_that_takes_no_files_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".target.part"))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with (
        pytest.raises(FileError, match=r"Could not write .*target: Permission denied"),
        atomic_file(tmp_path / "target"),
    ):
        pass


def test_a_pipe_is_written_also_where_its_path_leads_nowhere() -> None:
    reading, writing = os.pipe()
    link = Path(f"/proc/self/fd/{writing}")
    if not link.exists():
        pytest.skip("there is no /proc here")
    with atomic_file(link) as stream:
        stream.write(b"text")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"text"


def test_whether_a_file_can_be_written_is_found_out_without_a_trace(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("before", encoding="utf-8")
    for path in (there, tmp_path / "new", tmp_path / "some" / "folder" / "new", os.devnull):
        check_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert there.read_text(encoding="utf-8") == "before"
    for path in (tmp_path, there / "new", "/proc/new"):
        with pytest.raises(FileError, match=r"write|folder"):
            check_writable(path)


def test_whether_a_pipe_can_be_written_is_not_tried() -> None:
    reader, writer = os.pipe()
    try:
        check_writable(f"/dev/fd/{writer}")
    finally:
        os.close(reader)
        os.close(writer)


def test_a_link_that_leads_nowhere_is_reported_from_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").symlink_to("gone.onnx")
    with pytest.raises(FileError, match=r"model\.onnx is a link to gone\.onnx,"):
        readable_file(tmp_path / "model.onnx", "Model")


def test_a_link_that_leads_back_and_a_pipe_are_called_that(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match="a is a link to b, which leads back to it"):
        readable_file(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe is a pipe, which can be read only once"):
        readable_file(tmp_path / "pipe")


def test_an_empty_file_is_filled_so_that_who_has_it_open_reads_it(tmp_path: Path) -> None:
    target = tmp_path / "made"
    target.touch(0o640)
    link = tmp_path / "link"
    os.link(target, link)
    with target.open("rb") as opened:
        with atomic_file(target) as stream:
            stream.write(b"content")
        assert opened.read() == b"content"
    assert link.read_bytes() == b"content" and target.stat().st_mode & 0o777 == 0o640
    with atomic_file(target) as stream:  # What holds something is replaced.
        stream.write(b"other")
    assert link.read_bytes() == b"content" and target.read_bytes() == b"other"
    assert sorted(tmp_path.iterdir()) == [link, target]


def test_an_empty_file_stays_empty_where_nothing_is_written(tmp_path: Path) -> None:
    target = tmp_path / "made"
    target.touch()

    def write() -> None:
        with atomic_file(target) as stream:
            stream.write(b"half of it")
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        write()
    assert target.read_bytes() == b"" and list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any file")
def test_an_empty_file_that_cannot_be_written_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "made"
    target.touch(0o440)
    with atomic_file(target) as stream:
        stream.write(b"content")
    assert target.read_bytes() == b"content"


@pytest.mark.parametrize("name", ["x" * 255, "x" * 241, "ä" * 127])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path, name: str) -> None:
    for content in (b"a", b"b"):
        with atomic_file(tmp_path / name) as stream:
            stream.write(content)
        assert [each.name for each in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_bytes() == content


def test_parts_of_long_names_that_a_killed_process_left_are_swept(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250)
    descriptor, part = create_temporary_file(target)
    os.close(descriptor)
    with atomic_file(target) as stream:
        stream.write(b"content")
    assert not Path(part).exists()


def test_a_missing_file_is_what_python_calls_one(tmp_path: Path) -> None:
    path = tmp_path / "none"
    with pytest.raises(FileNotFoundError, match="No such file or directory") as caught:
        readable_file(path)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.errno, error.filename) == (errno.ENOENT, str(path))
        assert error.strerror == os.strerror(errno.ENOENT)
