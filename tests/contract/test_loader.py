"""What every loader promises, asked of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from attrs import frozen

from polygraphy.adapters.base.loader import BaseLoader, BytesFromPath, InvokeFromScript, SaveBytes
from polygraphy.adapters.fake import FakeLoader
from polygraphy.adapters.onnx.storage.model import BytesFromOnnx, OnnxFromBytes, OnnxFromPath
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx
from polygraphy.domain.errors import (
    FileError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from tests.support import models

SERIALIZED = models.identity().SerializeToString(deterministic=True)
SCRIPT = "answers = []\n\ndef answer():\n    answers.append(42)\n    return len(answers)\n"


@frozen
class Subject:
    """A loader: how it is made in a folder that holds what it needs, and what it then gives."""

    make: Callable[[Path], BaseLoader]
    gives: Callable[[Any], bool]
    is_anew: Callable[[Any, Any], bool] = lambda first, second: first is not second


def _is_identity(model: Any) -> bool:
    return isinstance(model, onnx.ModelProto) and model.graph.name == "test_identity"


def _is_session(session: Any) -> bool:
    return [output.name for output in session.get_outputs()] == ["y"]


def _is_serialized(content: Any) -> bool:
    return type(content) is bytes and content == SERIALIZED


SUBJECTS = {
    "BytesFromPath": Subject(lambda f: BytesFromPath(str(f / "model.onnx")), _is_serialized),
    "BytesFromOnnx": Subject(
        lambda f: BytesFromOnnx(OnnxFromPath(str(f / "model.onnx"))),
        lambda content: _is_identity(onnx.load_from_string(content)),
    ),
    "OnnxFromPath": Subject(lambda f: OnnxFromPath(str(f / "model.onnx")), _is_identity),
    "OnnxFromBytes": Subject(
        lambda f: OnnxFromBytes(BytesFromPath(str(f / "model.onnx"))), _is_identity
    ),
    "SaveBytes": Subject(
        lambda f: SaveBytes(BytesFromPath(str(f / "model.onnx")), str(f / "copy.onnx")),
        _is_serialized,
    ),
    "InvokeFromScript": Subject(
        lambda f: InvokeFromScript(str(f / "script.py"), "answer"),
        lambda answer: answer > 0,
        lambda first, second: second == first + 1,
    ),
    "SessionFromOnnx path": Subject(
        lambda f: SessionFromOnnx(str(f / "model.onnx")), _is_session
    ),
    "SessionFromOnnx loader": Subject(
        lambda f: SessionFromOnnx(BytesFromPath(str(f / "model.onnx"))), _is_session
    ),
    "FakeLoader": Subject(
        lambda f: FakeLoader(42), lambda value: value == 42, lambda first, second: True
    ),
}  # fmt: skip
NEEDS_A_FILE = [name for name in SUBJECTS if name != "FakeLoader"]

subjects = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


def _fill(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(SERIALIZED)
    (folder / "script.py").write_text(SCRIPT)


@subjects
def test_making_a_loader_does_no_work(subject: Subject, tmp_path: Path) -> None:
    loader = subject.make(tmp_path / "not there yet")
    assert isinstance(loader, BaseLoader)
    assert not (tmp_path / "not there yet").exists()
    (tmp_path / "not there yet").mkdir()
    _fill(tmp_path / "not there yet")
    assert subject.gives(loader())


@subjects
def test_every_call_works_anew(subject: Subject, tmp_path: Path) -> None:
    _fill(tmp_path)
    loader = subject.make(tmp_path)
    first, second = loader(), loader()
    assert subject.gives(first)
    assert subject.gives(second)
    assert subject.is_anew(first, second)


@pytest.mark.parametrize("name", [n for n in NEEDS_A_FILE if n != "InvokeFromScript"])
def test_a_call_sees_what_is_there_then(name: str, tmp_path: Path) -> None:
    _fill(tmp_path)
    loader = SUBJECTS[name].make(tmp_path)
    loader()
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(FileError):
        loader()


@pytest.mark.parametrize("name", NEEDS_A_FILE)
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        SUBJECTS[name].make(tmp_path)()
    assert str(tmp_path) in str(caught.value)
    assert str(tmp_path) in str(caught.value.path)


@pytest.mark.parametrize("name", [n for n in NEEDS_A_FILE if n != "InvokeFromScript"])
def test_an_empty_file_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    with pytest.raises(FileError, match="is empty"):
        SUBJECTS[name].make(tmp_path)()


@pytest.mark.parametrize("name", [n for n in NEEDS_A_FILE if n != "InvokeFromScript"])
def test_a_folder_is_no_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        SUBJECTS[name].make(tmp_path)()


@pytest.mark.parametrize(
    "name",
    ["BytesFromOnnx", "OnnxFromPath", "OnnxFromBytes", "SessionFromOnnx path",
     "SessionFromOnnx loader"],
)  # fmt: skip
@pytest.mark.parametrize(
    "content",
    [b"no model at all", SERIALIZED[: len(SERIALIZED) // 2], b"\x00" * 64],
    ids=["text", "truncated", "zeros"],
)
def test_a_damaged_model_is_a_model_error(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError, match="invalid"):
        SUBJECTS[name].make(tmp_path)()


@subjects
def test_the_arguments_can_be_read_from_the_repr(subject: Subject, tmp_path: Path) -> None:
    loader = subject.make(tmp_path)
    assert repr(loader).startswith(f"{type(loader).__name__}(")


def test_save_bytes_writes_what_it_passes_on(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "copy.bin"
    assert SaveBytes(b"content", str(target))() == b"content"
    assert target.read_bytes() == b"content"


def test_save_bytes_keeps_the_old_file_when_there_are_no_new_bytes(tmp_path: Path) -> None:
    target = tmp_path / "copy.bin"
    target.write_bytes(b"old")
    with pytest.raises(FileError):
        SaveBytes(BytesFromPath(str(tmp_path / "missing")), str(target))()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_script_is_run_once_and_its_function_takes_arguments(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text("def add(a, b=1):\n    return a + b\n")
    loader = InvokeFromScript(str(tmp_path / "add.py"), "add")
    assert (loader(1), loader(1, b=5)) == (2, 6)


def test_a_class_in_a_script_is_instantiated_once(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(
        "class Counter:\n    start = 5\n    def __init__(self):\n        self.n = self.start\n"
        "    def __call__(self):\n        self.n += 1\n        return self.n\n"
    )
    loader = InvokeFromScript(str(tmp_path / "counter.py"), "Counter")
    assert (loader(), loader(), loader.n) == (6, 7, 7)


@pytest.fixture
def two_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that there is a second execution provider, whose name contains the first one's."""
    names = ["XnnCPUExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: names)


@pytest.mark.usefixtures("two_providers")
@pytest.mark.parametrize(
    ("wanted", "error"),
    [("nonsense", UnknownNameError), ("cpu", UsageError), (("cpu", {}), UsageError)],
    ids=["unknown", "ambiguous", "ambiguous with options"],
)
def test_an_execution_provider_must_be_meant(wanted: Any, error: type[Exception]) -> None:
    loader = SessionFromOnnx(SERIALIZED, providers=[wanted])
    with pytest.raises(error, match="XnnCPUExecutionProvider"):
        loader()


@pytest.mark.usefixtures("two_providers")
def test_the_whole_name_of_an_execution_provider_is_enough() -> None:
    session = SessionFromOnnx(SERIALIZED, providers=["cpuexecutionprovider"])()
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize("wanted", ["cpu", "CPUExecutionProvider", "CpuExec", ("cpu", {})])
def test_an_execution_provider_may_be_abbreviated(wanted: Any) -> None:
    session = SessionFromOnnx(SERIALIZED, providers=[wanted])()
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_an_unknown_optimization_level_is_reported() -> None:
    with pytest.raises(UnknownNameError, match="ENABLE_ALL"):
        SessionFromOnnx(SERIALIZED, graph_optimization_level="ENABLE_ALLL")()


@pytest.mark.parametrize(
    ("level", "name"),
    [("disable", "ORT_DISABLE_ALL"), ("basic", "ORT_ENABLE_BASIC"), ("all", "ORT_ENABLE_ALL"),
     ("ENABLE_EXTENDED", "ORT_ENABLE_EXTENDED"), ("ORT_ENABLE_ALL", "ORT_ENABLE_ALL")],
)  # fmt: skip
def test_optimization_levels(level: str, name: str) -> None:
    session = SessionFromOnnx(SERIALIZED, graph_optimization_level=level)()
    assert session.get_session_options().graph_optimization_level.name == name


def test_external_weights_are_loaded_unless_ignored(tmp_path: Path) -> None:
    onnx.save(
        models.mlp(), str(tmp_path / "model.onnx"), save_as_external_data=True,
        location="weights.bin", size_threshold=0,
    )  # fmt: skip
    path = str(tmp_path / "model.onnx")
    loaded = OnnxFromPath(path)()
    assert onnx.numpy_helper.to_array(loaded.graph.initializer[0]).any()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "weights.bin").rename(elsewhere / "weights.bin")
    assert OnnxFromPath(path, external_data_dir=str(elsewhere))() == loaded
    with pytest.raises(FileError, match="weights"):
        OnnxFromPath(path)()
    structure = OnnxFromPath(path, ignore_external_data=True)()
    assert not structure.graph.initializer[0].raw_data


def test_no_bytes_are_no_model() -> None:
    with pytest.raises(ModelError):
        OnnxFromBytes(b"")()


def test_errors_of_an_inner_loader_pass_unchanged() -> None:
    error = KeyError("mine")
    inner = FakeLoader(error=error)
    for outer in (OnnxFromBytes(inner), SessionFromOnnx(inner), SaveBytes(inner, "nowhere")):
        with pytest.raises(KeyError) as caught:
            outer()
        assert caught.value is error
    assert inner.calls == 3
