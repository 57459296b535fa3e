"""Models that a session is made from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from polygraphy.adapters.onnx.storage.saving import save_model as saved
from polygraphy.adapters.onnx_common import loadable as module
from polygraphy.adapters.onnxruntime.trial import OnnxrtTrial
from polygraphy.adapters.os.forks import is_fork_safe
from polygraphy.backend.onnx import (
    extract_subgraph,
    fold_constants,
    gs_from_onnx,
    modify_outputs,
    save_onnx,
)
from polygraphy.backend.onnxrt import OnnxrtParty, OnnxrtRunner, session_from_onnx
from polygraphy.binding import bind
from polygraphy.domain.errors import (
    BackendError,
    InputError,
    UnavailableError,
    UnknownNameError,
    UsageError,
)
from polygraphy.ports.models import save_model
from tests.support import models


def outputs(session: Any) -> dict[str, Any]:
    x = np.ones((1, 512), np.float32)
    return {
        out.name: value for out, value in zip(session.get_outputs(), session.run(None, {"x": x}))
    }


def test_bytes_paths_and_models_give_the_same_session(tmp_path: Path) -> None:
    model = models.mlp(features=512)
    path = tmp_path / "m.onnx"
    save_onnx(model, str(path), "")
    expected = outputs(session_from_onnx(model.SerializeToString()))
    for given in (str(path), path, model, lambda: model):
        np.testing.assert_array_equal(outputs(session_from_onnx(given))["y"], expected["y"])


def test_a_model_that_does_not_fit_into_a_message_goes_through_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_serialize_model", lambda model: None)
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    model = modify_outputs(models.mlp(features=512), outputs=["h", "y"])
    written: list[str] = []

    def saving(model: Any, path: str) -> None:
        written.append(path)
        saved(model, path)

    with bind(save_model, saving):
        session = session_from_onnx(model)
    [path] = written
    assert tmp_path in Path(path).parents
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    expected = outputs(session_from_onnx(model.SerializeToString()))
    found = outputs(session)
    assert list(found) == ["h", "y"]
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name])


def test_a_diagnosis_gets_such_a_model_through_a_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, feed = models.mlp(features=512), {"x": np.ones((1, 512), np.float32)}
    expected = OnnxrtParty().load(model)(feed)
    rewritten = OnnxrtParty().runtime_graph(model)
    monkeypatch.setattr(module, "_serialize_model", lambda model: None)
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    np.testing.assert_array_equal(OnnxrtParty().load(model)(feed)["y"], expected["y"])
    executed = OnnxrtParty().runtime_graph(model)
    assert executed is not None
    assert rewritten is not None
    assert [node.op_type for node in executed.graph.node] == [
        node.op_type for node in rewritten.graph.node
    ]
    np.testing.assert_array_equal(OnnxrtParty().load(executed)(feed)["y"], expected["y"])
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_large_is_noticed() -> None:
    class TooLarge:
        graph = onnx.GraphProto()

        def SerializeToString(self) -> bytes:
            raise ValueError("exceeds maximum protobuf size of 2GB")

    assert module._serialize_model(TooLarge()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, "ORT_ENABLE_ALL"),
        ("ENABLE_ALL", "ORT_ENABLE_ALL"),
        ("ORT_DISABLE_ALL", "ORT_DISABLE_ALL"),
        ("basic", "ORT_ENABLE_BASIC"),
        ("extended", "ORT_ENABLE_EXTENDED"),
    ],
)
def test_levels_of_optimization(level: str | None, expected: str) -> None:
    session = session_from_onnx(models.mlp(features=512), graph_optimization_level=level)
    assert session.get_session_options().graph_optimization_level.name == expected
    assert outputs(session)


@pytest.mark.parametrize(("given", "expected"), [(None, True), (True, True), (False, False)])
def test_memory_is_kept_for_the_next_run_unless_that_is_not_wanted(
    given: bool | None, expected: bool
) -> None:
    session = session_from_onnx(models.mlp(features=512), memory_arena=given)
    assert session.get_session_options().enable_cpu_mem_arena is expected


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'ENABLE_SOME'"):
        session_from_onnx(models.mlp(), graph_optimization_level="ENABLE_SOME")


def test_a_provider_that_does_not_start_is_a_failure_unless_the_cpu_is_allowed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: there)
    model = models.mlp(features=512).SerializeToString()
    reason = "could not start CUDAExecutionProvider: the library libonnxruntime_providers_cuda"
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):  # ONNX Runtime's own.
        with pytest.raises(UnavailableError, match=reason):
            session_from_onnx(model, providers=["cuda"])
        assert capfd.readouterr().out.count("\n") == 1  # The session that is created.
        session = session_from_onnx(model, providers=["cuda", "cpu"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert is_fork_safe(), "no device was used"
    said = capfd.readouterr().out
    assert reason in said
    assert "runs with CPUExecutionProvider" in said


def test_a_provider_of_another_build_is_unavailable_unless_the_cpu_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build has it")
    with pytest.raises(UnavailableError, match="built without CUDAExecutionProvider"):
        session_from_onnx(models.mlp(features=512), providers=["cuda"])
    session = session_from_onnx(models.mlp(features=512), providers=["cuda", "cpu"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert "built without CUDAExecutionProvider" in capsys.readouterr().out


def test_an_error_of_the_model_is_not_one_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A provider that refuses a model is not said to be missing, nor replaced."""
    real = onnxruntime.InferenceSession
    broken = models.mlp(features=512).SerializeToString()

    def session(model: Any, *args: Any, providers: Any, **options: Any) -> Any:
        if model == broken:
            raise RuntimeError("no kernel for this node")
        made = real(model, *args, providers=["CPUExecutionProvider"], **options)
        monkeypatch.setattr(made, "get_providers", lambda: ["CUDAExecutionProvider"], raising=False)
        return made

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    with pytest.raises(BackendError, match="no kernel for this node"):
        session_from_onnx(broken, providers=["cuda", "cpu"])


def test_what_goes_wrong_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> m (int64[1] i) => (float[1] y)
        <float[2] table = {1, 2}> { y = Gather(table, i) }"""
    session = session_from_onnx(parser.parse_model(text))
    with OnnxrtRunner(session) as runner, pytest.raises(BackendError, match="out of data bounds"):
        runner.infer({"i": np.array([5])})
    assert capfd.readouterr().err == ""


def test_the_number_of_threads_can_be_chosen() -> None:
    model = models.mlp(features=512).SerializeToString()
    for threads in (1, 3):
        options = session_from_onnx(model, threads=threads).get_session_options()
        assert options.intra_op_num_threads == threads
    cores = len(os.sched_getaffinity(0))
    assert session_from_onnx(model).get_session_options().intra_op_num_threads == cores
    with pytest.raises(UsageError, match="at least one thread, not 0"):
        session_from_onnx(model, threads=0)


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32),
    reason="older versions may have no NumPy type for it",
)
def test_float8_comes_as_float8() -> None:
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 19]>
    g (float[3] x) => (float8e4m3fn[3] y) { y = Cast <to = 17> (x) }
    """)
    x = np.array([1, -2.5, 1000], dtype=np.float32)
    with OnnxrtRunner(session_from_onnx(model)) as runner:
        found = runner.infer({"x": x})["y"]
    assert found.dtype == ml_dtypes.float8_e4m3fn
    assert found.astype(float).tolist() == [1, -2.5, 448]


@pytest.mark.parametrize("kind", ["model", "bytes", "path"])
@pytest.mark.parametrize(
    "body, s, said",
    [
        (
            "g (float[a, b] x, int64[k] s) => (float[n] y) { r = Relu (x) y = Reshape (r, s) }",
            np.array([7]),
            "(Reshape of opset 15 on r float32[2,3], s int64[1])",
        ),
        (
            "g (float[a, b] x, float[k] s) => (float[n] z)"
            " { r = Relu (x) y = Add (r, s) z = Add (y, y) }",
            np.zeros(2, np.float32),
            "(Add of opset 15 on r float32[2,3], s float32[2])",
        ),
    ],
)
def test_errors_say_what_the_failing_node_was_given(
    tmp_path: Path, kind: str, body: str, s: Any, said: str
) -> None:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> {body}')
    for node in model.graph.node:
        node.name = f"makes {node.output[0]}"
    given: Any = model
    if kind == "bytes":
        given = model.SerializeToString()
    elif kind == "path":
        given = str(tmp_path / "m.onnx")
        save_onnx(model, given)
    with (
        OnnxrtRunner(session_from_onnx(given)) as runner,
        pytest.raises((BackendError, InputError)) as caught,
    ):
        runner.infer({"x": np.zeros((2, 3), np.float32), "s": s})
    assert said in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="names of files are text")
def test_a_file_whose_name_is_not_utf_8_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.onnx")
    path.write_bytes(models.mlp(features=512).SerializeToString())
    assert outputs(session_from_onnx(str(path)))["y"].shape == (1, 4)


@pytest.mark.skipif(os.name != "posix", reason="names of files are text")
def test_a_file_whose_name_is_not_utf8_is_tried_as_others(tmp_path: Path) -> None:
    path = f"{tmp_path}/\udcff.onnx"
    save_onnx(models.mlp(features=512), path)
    feed = {"x": np.ones((1, 512), np.float32)}
    assert OnnxrtTrial().run(path, feed, ["y"])["y"].shape == (1, 4)


def test_a_path_in_place_of_a_session_or_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="session of ONNX Runtime is required, not a str"):
        OnnxrtRunner("m.onnx").activate()
    for function in (modify_outputs, fold_constants, gs_from_onnx, extract_subgraph):
        with pytest.raises(UsageError, match=r"model is required, not 'm.onnx'\. Load it with"):
            function("m.onnx")
