"""Files that TensorRT reads itself: plans piece by piece, and runtime libraries."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polygraphy.adapters.tensorrt.library.module import use_module
from polygraphy.backend.trt import EngineFromBytes, FileReader, LoadRuntime
from polygraphy.domain.errors import BackendError, FileError
from tests.support.tensorrt_names import named_module


def test_a_plan_is_read_in_any_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Base:
        """Stands for IStreamReaderV2, of which none is made without a driver."""

        def seek(self, offset: int, where: Any) -> bool:
            raise NotImplementedError

    path = tmp_path / "x.engine"
    path.write_bytes(b"0123456789")
    with use_module(named_module("11.4.0.106")) as module, FileReader(str(path), Base) as reader:
        where = module.SeekPosition
        assert reader.read(4, 0) == b"0123"
        assert reader.seek(-2, where.END)
        assert reader.read(4, 0) == b"89"
        assert reader.seek(1, where.SET)
        assert reader.seek(1, where.CUR)
        assert reader.read(1, 0) == b"2"
        assert not reader.seek(-5, where.SET)
    assert reader.read(1, 0) == b""
    assert "closed" in capsys.readouterr().out


def test_a_plan_is_read_from_start_to_end_where_readers_cannot_seek(tmp_path: Path) -> None:
    class Base:
        """Stands for IStreamReader, which has no `seek`."""

    path = tmp_path / "x.engine"
    path.write_bytes(b"0123456789")
    with use_module(named_module("10.0.1")), FileReader(str(path), Base) as reader:
        assert reader.read(6) == b"012345"
        assert reader.read(6) == b"6789"
        assert not hasattr(reader, "seek")


@pytest.mark.parametrize(
    ("reason", "raised"),
    [(OSError(5, "Input/output error"), FileError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_an_error_of_reading_does_not_go_through_tensorrt(
    reason: BaseException,
    raised: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Base:
        """Stands for IStreamReader."""

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise reason

    path = tmp_path / "x.engine"
    path.write_bytes(b"0123456789")
    monkeypatch.setattr(Path, "open", lambda *args: Failing())
    reported = "Could not read .*x.engine: Input/output error" if raised is FileError else None
    with use_module(named_module("10.0.1")):
        reader = FileReader(str(path), Base)
        with pytest.raises(raised, match=reported), reader:
            assert reader.read(6) == b""
            raise AssertionError("TensorRT made no engine of nothing.")
        reader = FileReader(str(path), Base)
        runtime = SimpleNamespace(deserialize_cuda_engine=lambda plan: plan.read(6) or None)
        with pytest.raises(raised, match=reported):
            EngineFromBytes(reader, runtime)()


def test_where_there_are_no_readers_the_error_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.engine"
    path.write_bytes(b"plan")
    with use_module(named_module("8.6.0")), pytest.raises(BackendError, match="stream readers"):
        FileReader(str(path))


def test_files_that_are_missing(rtx: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"Engine .* does not exist"):
        FileReader(str(tmp_path / "none.engine"))
    with pytest.raises(FileError, match=r"Runtime library .* does not exist"):
        LoadRuntime(str(tmp_path / "libnvinfer_lean.so"))()
