"""Command lines that run models in TensorFlow and PyTorch, where these are installed.

They run in this process: importing a framework takes seconds.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy import mod
from polygraphy.logger import G_LOGGER
from tests.support import models
from tests.support.in_this_process import polygraphy

__all__ = ["polygraphy"]

has_tensorflow = pytest.mark.skipif(not mod.has_mod("tensorflow"), reason="needs TensorFlow")
has_torch = pytest.mark.skipif(not mod.has_mod("torch"), reason="needs PyTorch")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# TensorFlow.


@pytest.fixture(scope="module")
def tf_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same model in every format."""
    from polygraphy.backend.tf import save_graph
    from tests.adapters.tensorflow import graphs

    made = tmp_path_factory.mktemp("tensorflow")
    save_graph((graphs.two_layers(), ["y:0"]), str(made / "model.pb"))
    graphs.write_keras(made / "model.keras")
    graphs.write_saved_model(made / "saved")
    (made / "checkpoints").mkdir()
    graphs.write_checkpoint(made / "checkpoints", "first")
    return made


def saved_outputs(path: str) -> dict[str, Any]:
    from polygraphy.comparator import RunResults

    results = RunResults.load(path)
    return {runner: list(iterations[0]) for runner, iterations in results.items()}


@has_tensorflow
@pytest.mark.parametrize(
    "model",
    [
        "model.pb",
        "model.keras",
        "saved",
        "checkpoints",
        "checkpoints --ckpt first",
        "checkpoints --model-type ckpt",
        "model.pb --model-type frozen",
    ],
)
def test_a_model_of_tensorflow_is_compared_with_its_conversion(
    polygraphy: Any, tf_models: Path, model: str
) -> None:
    pytest.importorskip("tf2onnx")
    command = f"polygraphy run {model} --tf --onnxrt --onnx --iterations 2 --rtol 1e-4 --atol 1e-4"
    done = polygraphy(command, cwd=tf_models)
    assert done.code == 0, done.out + done.err
    assert "PASSED" in done.out


@has_tensorflow
def test_every_tensor_is_compared(polygraphy: Any, tf_models: Path, folder: Path) -> None:
    command = f"polygraphy run {tf_models}/model.pb --tf --save-outputs all.json"
    for every in ("--tf-outputs *", "--mark-all"):
        assert polygraphy(f"{command} {every}").code == 0
        [names] = saved_outputs("all.json").values()
        assert names == ["product:0", "sum:0", "y:0"]
    assert polygraphy(f"{command} --tf-outputs sum:0 product").code == 0
    assert list(saved_outputs("all.json").values()) == [["product:0", "sum:0"]]
    wrong = polygraphy(f"{command} --tf-outputs prodct:0")
    assert wrong.code == 2
    assert "product:0" in wrong.err


@has_tensorflow
def test_the_graph_is_saved_as_it_is_run(polygraphy: Any, tf_models: Path, folder: Path) -> None:
    done = polygraphy(
        f"polygraphy run {tf_models}/checkpoints --tf --freeze-graph --tf-outputs sum:0"
        " --save-pb new/frozen.pb --save-tensorboard board --save-timeline traces --iterations 2"
        " --gpu-memory-fraction 0.5 --allow-growth --xla --save-outputs before.json"
    )
    assert done.code == 0, done.err
    assert len(list((folder / "board").iterdir())) == 1
    traces = sorted((folder / "traces").iterdir())
    assert [path.name for path in traces] == ["run-0.json", "run-1.json"]
    assert json.loads(traces[0].read_text())["traceEvents"]
    again = polygraphy(
        "polygraphy run new/frozen.pb --tf --load-outputs before.json --iterations 2"
    )
    assert again.code == 0, again.err
    assert polygraphy("polygraphy run new/frozen.pb --tf --save-pb new/frozen.pb").code == 2


@has_tensorflow
def test_tensorrt_in_tensorflow(polygraphy: Any, tf_models: Path) -> None:
    import tensorflow as tf

    if has_tensorrt(tf):
        pytest.skip("it has TensorRT")
    done = polygraphy(
        "polygraphy run model.pb --tf --tftrt --minimum-segment-size 2 --dynamic-op", cwd=tf_models
    )
    assert done.code == 3
    assert "was built without TensorRT" in done.err


@has_tensorflow
@pytest.mark.parametrize("model", ["model.pb", "model.keras", "saved", "checkpoints"])
def test_models_of_tensorflow_are_converted(
    polygraphy: Any, tf_models: Path, folder: Path, model: str
) -> None:
    pytest.importorskip("tf2onnx")
    done = polygraphy(f"polygraphy convert {tf_models}/{model} -o made.onnx --opset 15")
    assert done.code == 0, done.err
    made = onnx.load("made.onnx")
    assert made.opset_import[0].version == 15
    assert [value.name for value in made.graph.input] == ["x:0"]
    assert polygraphy("polygraphy run made.onnx --onnxrt --onnx").code == 0


@has_tensorflow
@pytest.mark.parametrize("model", ["model.pb", "model.keras", "saved", "checkpoints"])
def test_models_of_tensorflow_are_tried_in_several_backends(
    polygraphy: Any, tf_models: Path, model: str
) -> None:
    done = polygraphy(f"polygraphy check compatibility {model} --tf", cwd=tf_models)
    assert done.code == 0, done.err
    assert "PASSED | tf runs the model." in done.out
    pytest.importorskip("tf2onnx")
    done = polygraphy(f"polygraphy check compatibility {model} --tf --onnxrt --onnx")
    assert done.code == 0, done.err
    for backend in ("tf", "onnxrt", "onnx"):
        assert f"PASSED | {backend} runs the model." in done.out


@pytest.fixture(scope="module")
def golden_tf_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the models that the golden programs about TensorFlow run."""
    from tests.adapters.tensorflow import graphs

    made = tmp_path_factory.mktemp("golden")
    (made / "folder").mkdir()

    def build(tf: Any, v1: Any, weight: Any) -> None:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        tf.nn.relu(tf.matmul(x, weight, name="a"), name="b")

    def save_checkpoint(tf: Any, v1: Any) -> None:
        build(tf, v1, v1.get_variable("weight", initializer=graphs.WEIGHT))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(made / "folder" / "name"))

    graphs.in_graph(save_checkpoint)
    graph = graphs.in_graph(lambda tf, v1: build(tf, v1, tf.constant(graphs.WEIGHT)))
    (made / "model.pb").write_bytes(graph.as_graph_def().SerializeToString())
    graphs.write_keras(made / "model.keras")
    graphs.write_saved_model(made / "saved")
    return made


GOLDEN_TF = {
    "run_tf": (),
    "run_tf_ckpt": ("a.pb",),
    "run_tf_flags": (),
    "run_tf_session": ("frozen.pb", "board", "traces/run-0.json"),
    "run_tf_tftrt": (),
    "inspect_model_tf": (),
    "convert_tf": ("model.onnx",),
    "check_compatibility_tf": (),
}
"""The golden programs that use TensorFlow, and what they write."""


def test_every_golden_program_about_tensorflow_is_executed() -> None:
    programs = (Path(__file__).parents[1] / "codegen" / "golden").glob("*.py")
    about = {path.stem for path in programs if "backend.tf import" in path.read_text("utf-8")}
    assert about | {"inspect_model_tf"} == set(GOLDEN_TF)


@has_tensorflow
@pytest.mark.parametrize("name", GOLDEN_TF)
def test_golden_programs_run_in_tensorflow(
    name: str,
    golden_tf_models: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("tf2onnx")
    import tensorflow as tf

    monkeypatch.chdir(golden_tf_models)
    program = Path(__file__).parents[1] / "codegen" / "golden" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(program)])
    with G_LOGGER.preserve(), pytest.raises(SystemExit) as left:
        runpy.run_path(str(program), run_name="__main__")
        sys.exit(0)
    reported = capsys.readouterr()
    assert "Traceback" not in reported.err
    if "UseTfTrt" in program.read_text() and not has_tensorrt(tf):
        assert left.value.code == 3
        assert "was built without TensorRT" in reported.err
        return
    assert not left.value.code, reported.err
    for written in GOLDEN_TF[name]:
        assert (golden_tf_models / written).exists()


def has_tensorrt(tf: Any) -> bool:
    return bool(tf.sysconfig.get_build_info().get("is_tensorrt_build"))


@has_tensorflow
def test_names_that_a_model_does_not_have_say_nothing_about_a_backend(
    polygraphy: Any, tf_models: Path
) -> None:
    command = "polygraphy check compatibility"
    for mistake in ("checkpoints --ckpt frist", "model.pb --tf --tf-outputs prodct"):
        done = polygraphy(f"{command} {mistake}", cwd=tf_models)
        assert done.code == 2
        assert "FAILED | tf" not in done.out
        assert "does not exist" in done.err


@has_tensorflow
def test_mistakes_with_tensorflow_get_one_line(
    polygraphy: Any, tf_models: Path, folder: Path
) -> None:
    (folder / "bad.pb").write_text("no model\n")
    (folder / "empty").mkdir()
    cases = {
        "run bad.pb --tf": (3, "bad.pb"),
        "run missing.keras --tf": (2, "missing.keras"),
        "run empty --tf": (3, "checkpoint"),
        f"run {tf_models}/checkpoints --tf --ckpt frist": (2, "first"),
    }
    for command, (code, word) in cases.items():
        done = polygraphy(f"polygraphy {command}")
        assert done.code == code, command
        [line] = [line for line in done.err.splitlines() if line.startswith("[!]")]
        assert word in line


# PyTorch.

SCRIPT = """
import numpy as np
import torch
from polygraphy.common import TensorMetadata

class Identity(torch.nn.Module):
    def forward(self, x):
        return {"y": x * 1}

def load_model():
    return Identity()

def described():
    return Identity(), TensorMetadata().add("x", np.float32, (1, 1, 2, 2))
"""


@pytest.fixture
def beside_torch(folder: Path) -> Path:
    onnx.save(models.identity(), "identity.onnx")
    (folder / "script.py").write_text(SCRIPT)
    return folder


@has_torch
@pytest.mark.parametrize("function", ["", ":load_model", ":described"])
def test_a_model_of_pytorch_is_compared_with_an_onnx_model(
    polygraphy: Any, beside_torch: Path, function: str
) -> None:
    done = polygraphy(f"polygraphy run identity.onnx --onnxrt --torch script.py{function}")
    assert done.code == 0, done.err
    assert "PASSED" in done.out


@has_torch
def test_a_model_of_pytorch_alone(polygraphy: Any, beside_torch: Path) -> None:
    done = polygraphy("polygraphy run --torch script.py --inputs x:[2,3] --save-outputs out.json")
    assert done.code == 0, done.err
    assert list(saved_outputs("out.json").values()) == [["y"]]
    device = polygraphy("polygraphy run --torch script.py:described --torch-device nowhere")
    assert device.code == 3
    assert "nowhere" in device.err
    missing = polygraphy("polygraphy run --torch script.py:lod_model")
    assert missing.code == 2
    assert "load_model" in missing.err


@has_torch
def test_a_compiled_model(polygraphy: Any, beside_torch: Path) -> None:
    script = beside_torch / "script.py"
    script.write_text(
        "import torch\ntorch.compile = lambda model: lambda x: {'y': x + 1}\n" + script.read_text()
    )
    command = "polygraphy run identity.onnx --onnxrt --torch script.py:described"
    assert polygraphy(command).code == 0
    assert polygraphy(f"{command} --torch-compile").code == 1


@has_torch
def test_a_program_is_compared_layer_by_layer(polygraphy: Any, folder: Path) -> None:
    pytest.importorskip("onnxscript")
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    program = torch.export.export(model, (torch.ones(2, 4),))
    torch.export.save(program, "model.pt2")
    torch.onnx.export(program, dynamo=True, verbose=False).save("model.onnx")
    done = polygraphy("polygraphy run model.onnx --onnxrt --torch model.pt2 --mark-all")
    assert done.code == 0, done.err
    assert "'linear'" in done.out
    assert "'relu'" in done.out


# Without the packages.


@pytest.mark.skipif(mod.has_mod("tensorflow"), reason="TensorFlow is installed")
def test_without_tensorflow_one_line_says_how_to_get_it(polygraphy: Any, folder: Path) -> None:
    (folder / "model.pb").write_bytes(b"\n")
    for command in (
        "run model.pb --tf",
        "run model.pb --onnxrt",
        "convert model.pb -o m.onnx",
        "inspect model model.pb",
        "check compatibility model.pb",
        "check compatibility model.pb --tf",
    ):
        done = polygraphy(f"polygraphy {command}")
        assert done.code == 3
        assert "pip install tensorflow" in done.err


@pytest.mark.skipif(mod.has_mod("torch"), reason="PyTorch is installed")
def test_without_pytorch_one_line_says_how_to_get_it(polygraphy: Any, folder: Path) -> None:
    (folder / "model.pt2").write_bytes(b"\n")
    (folder / "script.py").write_text("def load_model(): return None")
    for model in ("model.pt2", "script.py"):
        done = polygraphy(f"polygraphy run --torch {model}")
        assert done.code == 3
        assert "pip install torch" in done.err


# Plugin references.


@pytest.mark.usefixtures("plugin_registry")
def test_plugin_references_of_a_script(polygraphy: Any, folder: Path) -> None:
    onnx.save(models.custom_op(), "model.onnx")
    (folder / "references.py").write_text(
        "from polygraphy.backend.pluginref import register\n"
        "@register('CustomOp')\n"
        "def custom_op(attrs, x):\n"
        "    return [x * 2]\n"
    )
    without = polygraphy("polygraphy run model.onnx --pluginref")
    assert without.code == 3
    assert "CustomOp" in without.err
    done = polygraphy(
        "polygraphy run model.onnx --pluginref --plugin-references references.py"
        " --save-inputs in.json --save-outputs out.json"
    )
    assert done.code == 0, done.err
    from polygraphy.comparator import RunResults
    from polygraphy.json import load_json

    [[iteration]] = RunResults.load("out.json").values()
    np.testing.assert_allclose(iteration["y"], load_json("in.json")[0]["x"] * 2)
