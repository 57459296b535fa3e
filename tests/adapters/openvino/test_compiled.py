"""OpenVINO: what it is asked, what it computes in, and what it calls things."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("openvino")

from polygraphy.adapters.openvino.compiled import (
    Layer,
    _output_precisions,
    default_precision,
    layers_of,
    precision_of,
)
from polygraphy.adapters.openvino.devices import device_sections
from polygraphy.adapters.openvino.errors import error_line, translate_errors
from polygraphy.backend.openvino import (
    CompiledModelFromOnnx,
    OpenvinoRunner,
    compiled_model_from_onnx,
)
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.tensors.datatype import DataType
from tests.support import models
from tests.support.helpers.openvino_models import X, computes_in_bfloat16, conv_relu


def infer(model: onnx.ModelProto, **how: object) -> dict[str, np.ndarray]:
    with OpenvinoRunner(CompiledModelFromOnnx(model, **how)) as runner:
        return runner.infer({"x": X})


def layer(name: str, precision: str, reads: list[str], kind: str = "Eltwise") -> Layer:
    return Layer(name, kind, precision, [name], reads, name if kind == "Output" else "")


def test_fused_layers_show_and_can_be_kept_apart() -> None:
    made = [each.names for each in layers_of(compiled_model_from_onnx(conv_relu()))]
    assert ["c", "y"] in made
    apart = layers_of(compiled_model_from_onnx(conv_relu(), fuse=False))
    assert ["c", "y"] not in [each.names for each in apart]
    outputs = infer(conv_relu(), fuse=False, precision_hint="f32")
    assert list(outputs) == ["y", "z"]
    assert np.allclose(outputs["y"], infer(conv_relu(), precision_hint="f32")["y"], atol=1e-5)


def test_the_precision_is_what_was_asked_for() -> None:
    assert precision_of(compiled_model_from_onnx(conv_relu(), precision_hint="f32")) == "f32"
    properties = {"INFERENCE_PRECISION_HINT": "f32"}
    assert precision_of(compiled_model_from_onnx(conv_relu(), properties=properties)) == "f32"


def test_outputs_computed_in_bfloat16_are_known_as_such() -> None:
    if not computes_in_bfloat16():
        pytest.skip("this processor does not compute in bfloat16")
    with OpenvinoRunner(CompiledModelFromOnnx(conv_relu(), precision_hint="bf16")) as runner:
        facts = runner.get_model_facts()
        assert facts.compute_dtypes.get("y") == "bfloat16"
        assert facts.compute_dtypes.get("z", facts.compute_dtypes.get("")) != "bfloat16"
    exact = infer(conv_relu(), precision_hint="f32")["y"]
    low = infer(conv_relu(), precision_hint="bf16")["y"]
    kept = infer(conv_relu(), precision_hint="bf16", float32_tensors=["c"])["y"]
    assert np.abs(low - exact).max() > 1e-3
    assert np.abs(kept - exact).max() < 1e-5


def test_products_inside_compiled_code_are_lowered_and_can_be_kept() -> None:
    if not computes_in_bfloat16():
        pytest.skip("this processor does not compute in bfloat16")
    weights = {name: np.random.RandomState(2).rand(64, 64).astype(np.float32) for name in "vw"}
    model = models.make(
        "products",
        [
            helper.make_node("MatMul", ["x", "v"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w"], ["y"]),
        ],
        [models.value("x", [4, 64])],
        [models.value("y", [4, 64])],
        weights=weights,
    )
    feed = {"x": np.random.RandomState(3).rand(4, 64).astype(np.float32)}
    exact = feed["x"] @ weights["v"] @ weights["w"]
    with OpenvinoRunner(CompiledModelFromOnnx(model, precision_hint="bf16")) as runner:
        off = np.abs(runner.infer(feed)["y"] - exact).max()
        assert runner.get_model_facts().compute_dtypes["y"] == "bfloat16"
    loader = CompiledModelFromOnnx(model, precision_hint="bf16", float32_tensors=["h", "r", "y"])
    with OpenvinoRunner(loader) as runner:
        kept = np.abs(runner.infer(feed)["y"] - exact).max()
    assert kept < off / 20


def test_the_coarsest_type_on_the_way_to_an_output_counts() -> None:
    layers = [
        layer("x", "f32", [], "Input"),
        layer("a", "bf16", ["x"]),
        layer("b", "f32", ["a"]),
        layer("c", "f16", ["x"]),
        layer("moved", "bf16", ["x"], "Reorder"),
        layer("p", "f32", ["b", "c"], "Output"),
        layer("q", "f32", ["c"], "Output"),
        layer("r", "f32", ["moved"], "Output"),
    ]
    assert _output_precisions(layers) == {"p": "bfloat16", "q": "float16"}


def test_an_input_keeps_its_name_where_tensors_are_the_same() -> None:
    model = models.make(
        "same",
        [helper.make_node("Identity", ["x"], ["b"]), helper.make_node("Identity", ["x"], ["a"])],
        [models.value("x", [2])],
        [models.value("b", [2]), models.value("a", [2])],
    )
    with OpenvinoRunner(CompiledModelFromOnnx(model)) as runner:
        assert list(runner.get_input_metadata()) == ["x"]
        made = runner.infer({"x": np.array([1, 2], np.float32)})
    assert list(made) == ["b", "a"]
    chain = models.make(
        "chain",
        [helper.make_node("Identity", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["y"])],
        [models.value("x", [2])],
        [models.value("y", [2])],
    )
    with OpenvinoRunner(CompiledModelFromOnnx(chain)) as runner:
        assert runner.infer({"x": np.array([1, 2], np.float32)})["y"].tolist() == [-1, -2]


def test_what_numpy_lacks_is_handed_over_bit_by_bit() -> None:
    model = models.make(
        "narrow",
        [helper.make_node("Identity", ["x"], ["y"])],
        [models.value("x", ["n"], TensorProto.BFLOAT16)],
        [models.value("y", ["n"], TensorProto.BFLOAT16)],
    )
    x = np.array([1.5, -2, 0.1]).astype(DataType.BFLOAT16.numpy())
    with OpenvinoRunner(CompiledModelFromOnnx(model)) as runner:
        made = runner.infer({"x": x})["y"]
    assert made.dtype == x.dtype
    assert np.array_equal(made, x)


def test_a_compiled_model_of_somebody_else_is_run() -> None:
    import openvino

    made = openvino.Core().read_model(conv_relu().SerializeToString())
    made.add_outputs("c")
    with OpenvinoRunner(openvino.Core().compile_model(made, "CPU")) as runner:
        assert list(runner.infer({"x": X})) == ["y", "z", "c"]
        assert dict(runner.get_model_facts().compute_dtypes) == {}


@pytest.mark.parametrize(
    "make, error, said",
    [
        (CompiledModelFromOnnx("none.onnx"), FileError, "none.onnx"),
        (CompiledModelFromOnnx(b"none"), ModelError, "truncated, damaged"),
        (CompiledModelFromOnnx(conv_relu(), device="NPU"), UnknownNameError, "NPU"),
        (lambda: CompiledModelFromOnnx(b"", precision_hint="f8"), UnknownNameError, "f8"),
        (lambda: CompiledModelFromOnnx(b"", threads=0), UsageError, "one thread"),
        (
            CompiledModelFromOnnx(conv_relu(), float32_tensors=["no"]),
            UnknownNameError,
            "'no'",
        ),
        (
            CompiledModelFromOnnx(conv_relu(), properties={"NONSENSE": "1"}),
            BackendError,
            "NONSENSE",
        ),
        (
            CompiledModelFromOnnx(models.custom_op()),
            BackendError,
            "does not support test.custom.CustomOp.",
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    make: Callable[[], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        make()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert ".cpp" not in str(raised.value)


def test_errors_leave_out_where_they_were_raised() -> None:
    said = (
        "Exception from src/inference/src/cpp/core.cpp:106:\nCheck 'a()' failed at src/x.cpp:5:\n"
        "FrontEnd API failed with GeneralFailure:\nOpenVINO does not support it\n\n"
    )
    assert error_line(said) == "OpenVINO does not support it"
    said = (
        "Model wasn't fully converted. Failed operations detailed log:\n-- Conv-15 with a message:\n"
        "While validating ONNX node 'a':\nCheck 'data.f(x).is_static()' failed at src/conv.cpp:38:\n"
        "The rank has to be known\n-- Add-7 with a message:\nOther\n"
    )
    assert error_line(said) == (
        "Conv-15 with a message: While validating ONNX node 'a': The rank has to be known"
    )
    said = (
        "Caught exception: Exception from src/plugins/intel_cpu/src/node.cpp:794:\n[CPU] MaxPool node"
        " 'a' Check 'cmp::le(kernel, length)' failed at src/core/pool.hpp:149:\nThe kernel is larger"
    )
    assert error_line(said) == "[CPU] MaxPool node 'a' The kernel is larger"
    said = (
        "Exception from src/core/src/pass/graph_rewrite.cpp:298:\n[AddTransformation] END: node:"
        " opset1::Add Add@1 (opset1::Multiply a_DequantizeLinear[0]:f32[?,2]) -> (f32[?,2])"
        " CALLBACK HAS THROWN: Check 'index < m_inputs.size()' failed at src/core/src/node.cpp:304:\n"
        "index '0' out of range\n\n"
    )
    assert error_line(said) == "its AddTransformation failed at Add@1: index '0' out of range"
    with (
        pytest.raises(BackendError, match="LP_TRANSFORMS_MODE=NO"),
        translate_errors("compile"),
    ):
        raise RuntimeError(said)
    with (
        pytest.raises(BackendError, match="could not run the thing: It is so"),
        translate_errors("run", "the thing"),
    ):
        raise RuntimeError("It is so")


@pytest.mark.slow
@pytest.mark.huge
def test_a_model_above_two_gigabytes_is_read_from_where_it_is(tmp_path: Path) -> None:
    rows, width = 550, 1 << 20
    model = models.make(
        "lookup",
        [helper.make_node("Gather", ["table", "place"], ["y"])],
        [models.value("place", [1], TensorProto.INT64)],
        [models.value("y", [1, width])],
        weights={"table": np.zeros((1, width), np.float32)},
    )
    table = onnx.TensorProto(name="table", data_type=1, dims=[rows, width], data_location=1)
    table.external_data.add(key="location", value="table.bin")
    model.graph.initializer[0].CopyFrom(table)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with (tmp_path / "table.bin").open("wb") as weights:  # Zeros take no room, but for one row.
        weights.truncate(rows * width * 4)
        weights.seek((rows - 1) * width * 4)
        weights.write(np.arange(width, dtype=np.float32).tobytes())
    assert (tmp_path / "table.bin").stat().st_size > 2 << 30
    with OpenvinoRunner(CompiledModelFromOnnx(str(tmp_path / "m.onnx"))) as runner:
        for place, first in ((0, 0.0), (rows - 1, 1.0)):
            made = runner.infer({"place": np.array([place])})["y"]
            assert made.shape == (1, width) and made[0, 1] == first


def test_a_cache_is_filled_and_read(tmp_path: Path) -> None:
    first = infer(conv_relu(), cache_dir=str(tmp_path), precision_hint="f32")
    assert list(tmp_path.iterdir())
    again = infer(conv_relu(), cache_dir=str(tmp_path), precision_hint="f32")
    assert np.array_equal(first["y"], again["y"]) and list(again) == ["y", "z"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
def test_a_process_that_was_forked_refuses_rather_than_waits_for_ever() -> None:
    from polygraphy.adapters.processes.forked import call_isolated

    infer(conv_relu())
    with pytest.raises(UsageError, match="forked"):
        call_isolated(lambda: infer(conv_relu()), what="openvino", timeout=20)


_FORKS = """
import sys
import numpy as np
from onnx import parser
from polygraphy.adapters.openvino.compiled import default_precision
from polygraphy.adapters.processes.forked import call_isolated
from polygraphy.backend.openvino import CompiledModelFromOnnx, OpenvinoRunner
from polygraphy.exception import UsageError

text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) {y = Relu(x)}'
loader = CompiledModelFromOnnx(parser.parse_model(text))
feed = {"x": np.ones(4, np.float32)}


def run():
    with OpenvinoRunner(loader) as runner:
        return runner.infer(feed)["y"].sum()


default_precision("CPU")
print("forked before:", call_isolated(run, what="first", timeout=60))
runner = OpenvinoRunner(loader)
runner.activate()
for call in (run, lambda: runner.infer(feed)):
    try:
        call_isolated(call, what="then", timeout=60)
    except UsageError as error:
        print("forked after:", str(error)[:21])
runner.deactivate()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
def test_forks_compute_until_a_model_is_compiled_and_are_refused_then() -> None:
    """In an interpreter of its own: what the process has done before decides."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKS], capture_output=True, text=True, check=False
    )
    said = done.stdout.splitlines()
    assert said == ["forked before: 4.0", *["forked after: OpenVINO ran in the p"] * 2], done.stderr


def test_a_release_that_is_too_old_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino

    monkeypatch.setattr(openvino, "__version__", "2023.2.0-13089")
    with pytest.raises(BackendError, match="too old: 2024"):
        CompiledModelFromOnnx(conv_relu())()
    assert [section.remarks for section in device_sections()] == [
        ("None: This OpenVINO is too old: 2024.0 or later is required. pip install -U openvino",)
    ]


def test_devices_are_listed_with_what_they_compute_in() -> None:
    [section] = device_sections()
    said = dict(section.facts)
    assert "computes in" in said["CPU"] and "by default" in said["CPU"]


def test_ctrl_c_is_an_interrupt_after_several_models() -> None:
    """OpenVINO has handlers of signals run on a stack of its own, which must still be there."""
    program = (
        "import os, signal\n"
        "from onnx import parser\n"
        "from polygraphy.backend.openvino import compiled_model_from_onnx\n"
        "text = '<ir_version: 8, opset_import: [\"\" : 17]> g (float[4] x) => (float[4] y) {y = Relu(x)}'\n"
        "made = [compiled_model_from_onnx(parser.parse_model(text)) for _ in range(3)]\n"
        "del made[0]\n"
        "del made[:]\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["interrupted"]), done.stderr


CRASHING = """
import os, signal, sys
import numpy as np
from polygraphy.adapters.openvino.party import OpenvinoParty
from polygraphy.backend.openvino import OpenvinoRunner, compiled_model_from_onnx

model, where = sys.argv[1:]

def crash(*_):
    os.kill(os.getpid(), signal.SIGSEGV)

x = np.zeros((1, 3, 8, 8), np.float32)
if where == "in a diagnosis":
    OpenvinoRunner.infer_impl = crash
    OpenvinoParty().load(model)({"x": x})
runner = OpenvinoRunner(crash if where == "compiled" else lambda: compiled_model_from_onnx(model))
runner.activate()
if where == "ran":
    runner._request = type("Request", (), {"set_input_tensor": crash})()
runner.infer({"x": x})
runner.deactivate()
os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.parametrize("where", ["compiled", "ran", "in a diagnosis", "behind"])
def test_a_crash_of_openvino_leaves_one_line(where: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(conv_relu(), path)
    line = [sys.executable, "-c", CRASHING, str(path), where]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -11
    said = [each for each in done.stderr.splitlines() if each.startswith("[!]")]
    ours = f"[!] The process ended while OpenVINO {where} the model: OpenVINO crashed, or the process was"
    assert [each.partition(" killed")[0] for each in said] == [ours] * (
        where in ("compiled", "ran")
    )


def test_inputs_that_are_not_contiguous_are_all_kept_until_they_are_computed() -> None:
    names = [f"x{index}" for index in range(8)]
    nodes = [helper.make_node("Relu", [name], [f"of {name}"]) for name in names]
    ends = [models.value(name, [64, 128]) for name in (*names, *(f"of {name}" for name in names))]
    model = models.make("many", nodes, ends[:8], ends[8:])
    feed = {
        name: np.random.default_rng(number).uniform(1, 2, (128, 64)).astype(np.float32).T
        for number, name in enumerate(names)
    }
    with OpenvinoRunner(CompiledModelFromOnnx(model, precision_hint="f32")) as runner:
        for _ in range(3):
            made = runner.infer(feed)
            assert [
                name for name in names if not np.array_equal(made[f"of {name}"], feed[name])
            ] == []


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU", "HETERO:CPU"])
def test_a_device_that_chooses_another_computes_in_what_that_does(device: str) -> None:
    by_default = default_precision("CPU")
    assert default_precision(device) == by_default
    assert precision_of(compiled_model_from_onnx(conv_relu(), device=device)) == by_default


def test_a_cache_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        CompiledModelFromOnnx(conv_relu(), cache_dir=str(tmp_path / "file"))()
