"""PyTorch on a real GPU: its runner, and its results beside those of TensorRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from polygraphy.adapters.tensorrt.library.module import is_installed  # noqa: E402
from polygraphy.backend.pyt import PytRunner  # noqa: E402
from polygraphy.backend.trt import TrtRunner  # noqa: E402
from polygraphy.comparator import Comparator, SimpleCompareFunc  # noqa: E402
from polygraphy.domain.tensors.metadata import TensorMetadata  # noqa: E402
from tests.gpu.commands import Run, run  # noqa: E402

__all__ = ["run"]  # The fixture that is used here.

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU"),
]

X = np.random.default_rng(0).standard_normal((5, 4), dtype=np.float32)


class Net(torch.nn.Module):
    """A dense layer and a ReLU, and the sum of that; weights are the same in each process."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dense = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.dense(x))
        return h, h.sum(1)


def metadata() -> TensorMetadata:
    return TensorMetadata().add("x", np.float32, (5, 4))


def on_cpu() -> dict[str, Any]:
    with PytRunner(Net(), metadata()) as runner:
        return dict(runner.infer({"x": X}))


def test_a_model_runs_where_it_is_reported_to() -> None:
    net, wanted = Net(), on_cpu()
    with PytRunner(net, metadata(), device="cuda") as runner:
        assert next(net.parameters()).is_cuda
        outputs = runner.infer({"x": X})
        for name, array in wanted.items():
            assert isinstance(outputs[name], np.ndarray)
            np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-5)
        assert 0 < (runner.last_inference_time() or 0) < 10


def test_tensors_on_the_gpu_stay_there() -> None:
    wanted = on_cpu()
    with PytRunner(Net(), metadata(), device="cuda") as runner:
        for given in (torch.from_numpy(X).cuda(), torch.from_numpy(X)):
            outputs = runner.infer({"x": given})
            for name, array in wanted.items():
                assert outputs[name].is_cuda
                np.testing.assert_allclose(outputs[name].cpu().numpy(), array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["exported", "script", "compiled"])
def test_programs_of_every_kind(kind: str) -> None:
    wanted = list(on_cpu().values())
    net: Any = Net().eval()
    example = torch.from_numpy(X)
    if kind == "exported":
        net = torch.export.export(net.cuda(), (example.cuda(),))
    elif kind == "script":
        net = torch.jit.trace(net, example)
    runner = PytRunner(
        net,
        None if kind == "exported" else metadata(),
        device="cuda",
        compiled=kind == "compiled",
    )
    with runner:
        outputs = list(runner.infer({"x": X}).values())
    for found, array in zip(outputs, wanted):
        np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5)


SCRIPT = """
import torch

def load_model():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)
"""


def test_a_command_compares_the_gpu_with_the_cpu(tmp_path: Path, run: Run) -> None:
    (tmp_path / "model.py").write_text(SCRIPT)
    line = "run --torch model.py:load_model --input-shapes input:[5,4] --rtol 1e-4 --atol 1e-5"
    code, said = run(f"{line} --torch-device cpu --save-outputs outputs.json")
    assert code == 0, said[-3000:]
    code, said = run(f"{line} --torch-device cuda --load-outputs outputs.json")
    assert code == 0, said[-3000:]
    assert "Pass Rate: 100.0%" in said


DENSE = """
import numpy as np
import onnx
import torch
from onnx import numpy_helper, parser


def load_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))


def save(path, factor=1.0):
    model = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
        m (float[4,64] input) => (float[4,8] y)
        { a = Gemm <transB = 1> (input, w0, b0)  b = Tanh(a)  y = Gemm <transB = 1> (b, w1, b1) }''')
    state = load_model().state_dict()
    for name, key in (("w0", "0.weight"), ("b0", "0.bias"), ("w1", "2.weight"), ("b1", "2.bias")):
        value = state[key].numpy() * np.float32(factor if name == "w1" else 1)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    onnx.save(model, path)
"""


@pytest.fixture
def dense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module that saves a network as ONNX, and loads it in PyTorch."""
    pytest.importorskip("onnxruntime")
    (tmp_path / "dense.py").write_text(DENSE)
    namespace: dict[str, Any] = {}
    exec(DENSE, namespace)
    namespace["save"](str(tmp_path / "right.onnx"))
    namespace["save"](str(tmp_path / "wrong.onnx"), 1.3)
    return namespace


def test_diagnose_runs_the_program_on_the_gpu(dense: Any, run: Run) -> None:
    words = "--onnxrt --torch dense.py:load_model --torch-device cuda"
    code, said = run(f"diagnose right.onnx {words}")
    assert code == 0, said
    assert "No fault found" in said or "PASSED" in said
    code, said = run(f"diagnose wrong.onnx {words}")
    assert code == 1, said
    assert "CULPRIT" in said
    assert "node_y" in said


def test_inferences_and_a_diagnosis_return_the_memory_of_the_gpu(
    dense: Any, tmp_path: Path
) -> None:
    from tests.gpu.test_onnxrt import DRIVER, used_memory

    program = """
import numpy as np
from dense import load_model
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.torch.source import TorchProgram
from polygraphy.backend.pyt import PytRunner
from polygraphy.diagnose import diagnose

def infer(times):
    feed = {"input": np.ones((4, 64), np.float32)}
    with PytRunner(load_model(), device="cuda") as runner:
        for _ in range(times):
            runner.infer(feed)

infer(1)  # What stays until the program ends: libraries, and their workspaces.
figures = [used()]
infer(1000)
figures.append(used())
program = TorchProgram(load_model(), device="cuda")
assert diagnose("right.onnx", [OnnxrtParty()], program=program)
figures.append(used())
print(json.dumps(figures))
"""
    before, inferred, diagnosed = used_memory(program, tmp_path)
    assert inferred <= before + DRIVER
    assert diagnosed <= before + DRIVER


class Total(torch.nn.Module):
    """What `engines.total` computes."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": a + b, "difference": a - b}


@pytest.mark.skipif(not is_installed(), reason="needs TensorRT")
def test_it_agrees_with_tensorrt() -> None:
    from tests.gpu import engines

    shapes = TensorMetadata().add("a", np.float32, (2, 3)).add("b", np.float32, (2, 3))
    results = Comparator.run(
        [
            PytRunner(Total(), shapes, device="cuda", name="torch"),
            TrtRunner(lambda: engines.engine(engines.total), name="trt"),
        ]
    )
    assert bool(Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc(atol=0)))


@pytest.mark.skipif(not is_installed(), reason="needs TensorRT")
def test_its_tensors_go_to_tensorrt_and_back_on_the_gpu() -> None:
    from tests.gpu import engines

    a, b = (torch.arange(6.0).reshape(2, 3).cuda() * factor for factor in (1, 10))
    with (
        PytRunner(Total(), device="cuda") as first,
        TrtRunner(engines.engine(engines.total)) as second,
    ):
        for _ in range(4):
            made = first.infer({"a": a, "b": b})
            feed = {"a": made["sum"], "b": made["difference"]}
            outputs = second.infer(feed, copy_outputs_to_host=False)
            torch.testing.assert_close(outputs["sum"], 2 * a)
            torch.testing.assert_close(outputs["difference"], 2 * b)


STATEFUL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(16, 8)
        self.mix = torch.nn.Linear(16, 8)

    def forward(self, tokens, past):
        sizes = past.shape[1] + torch.arange(tokens.shape[1], device=past.device)
        now = torch.tanh(self.mix(torch.cat([self.table(tokens), self.table(sizes)[None]], 2)))
        present = torch.cat([past, now], 1)
        seen = torch.arange(present.shape[1], device=past.device)[None] <= sizes[:, None]
        return (seen[None] / (sizes[:, None] + 1)) @ present, present


def make():
    torch.manual_seed(0)
    return Net().eval()


def export(path):
    torch.onnx.export(
        make(), (torch.tensor([[1, 2, 3]]), torch.zeros(1, 2, 8)), path, dynamo=False,
        input_names=["tokens", "past"], output_names=["y", "present"],
        dynamic_axes={"tokens": {1: "n"}, "past": {1: "past"}, "present": {1: "total"}},
    )
"""


def test_a_module_with_a_cache_runs_several_steps(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "net.py").write_text(STATEFUL)
    names: dict[str, Any] = {}
    exec(compile(STATEFUL, str(tmp_path / "net.py"), "exec"), names)
    names["export"](str(tmp_path / "m.onnx"))
    (tmp_path / "tokens.txt").write_text("1 2 3 4 1 2 3 4")
    torch_options = "--torch net.py:make --torch-device cuda --tokens tokens.txt --steps 5"
    code, said = run(f"diagnose m.onnx {torch_options}")
    assert code == 0, said[-3000:]
    code, said = run(f"run m.onnx --onnxrt {torch_options} --rtol 1e-4 --atol 1e-4")
    assert code == 0, said[-3000:]
