"""Models of PyTorch of every kind, run eagerly, compiled, and node by node."""

from __future__ import annotations

import io
import shutil
import sys
import warnings
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from polygraphy import constants  # noqa: E402
from polygraphy.adapters.torch.precision import compute_precision  # noqa: E402
from polygraphy.adapters.torch.program import Module  # noqa: E402
from polygraphy.adapters.torch.source import TorchProgram  # noqa: E402
from polygraphy.backend.common import InvokeFromScript  # noqa: E402
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx  # noqa: E402
from polygraphy.backend.pyt import PytRunner, TorchFromPath, torch_from_path  # noqa: E402
from polygraphy.binding import bind  # noqa: E402
from polygraphy.comparator import Comparator  # noqa: E402
from polygraphy.domain.errors import (  # noqa: E402
    BackendError,
    FileError,
    InputError,
    ModelError,
    UsageError,
)
from polygraphy.domain.tensors.datatype import DataType  # noqa: E402
from polygraphy.domain.tensors.metadata import TensorMetadata  # noqa: E402
from polygraphy.ports.machine import computes_in_tf32  # noqa: E402
from tests.support import models  # noqa: E402

X = np.random.RandomState(0).standard_normal((5, 4)).astype(np.float32)


class Net(torch.nn.Module):
    """A dense layer, dropout and a ReLU; returns it and its sum."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(4, 3)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.dropout(self.dense(x)))
        return h, h.sum(1)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def expected(net: Net) -> Any:
    with torch.no_grad():
        weight, bias = net.dense.weight.numpy(), net.dense.bias.numpy()
    return np.maximum(X @ weight.T + bias, 0)


def exported(net: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(net.eval(), args, **kwargs)


def export(net: Net) -> Any:
    return exported(net, torch.ones(2, 4), dynamic_shapes=({0: torch.export.Dim("n")},))


def script(net: Net) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(net)


@pytest.mark.parametrize("kind", [lambda net: net, export, script], ids=["nn", "export", "jit"])
def test_every_kind_of_model_runs(net: Net, kind: Any) -> None:
    with PytRunner(kind(net)) as runner:
        [(name, (dtype, _))] = runner.get_input_metadata().items()
        assert name == "x"
        assert dtype in (None, np.float32)  # A module does not say.
        outputs = runner.infer({"x": X})
        assert runner.last_inference_time()
    h, total = outputs.values()
    np.testing.assert_allclose(h, expected(net), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, h.sum(1), rtol=1e-5, atol=1e-6)


def test_names_come_from_the_caller_the_loader_or_the_program(net: Net) -> None:
    metadata = TensorMetadata().add("image", DataType.FLOAT32, ["n", 4])
    cases: list[tuple[PytRunner, list[str], list[str]]] = [
        (PytRunner(net, metadata, ["h", "total"]), ["image"], ["h", "total"]),
        (PytRunner(lambda: net), ["x"], ["output_0", "output_1"]),
        (PytRunner(lambda: (net, metadata)), ["image"], ["output_0", "output_1"]),
        (PytRunner(lambda: (net, metadata, ["a", "b"])), ["image"], ["a", "b"]),
        (PytRunner(lambda: (net, metadata, ["a", "b"]), None, ["c", "d"]), ["image"], ["c", "d"]),
        (PytRunner(export(net)), ["x"], ["relu", "sum_1"]),
    ]
    for runner, inputs, outputs in cases:
        with runner:
            assert list(runner.get_input_metadata()) == inputs
            assert list(runner.infer({inputs[0]: X})) == outputs


def test_shapes_of_a_program_are_reported(net: Net) -> None:
    with PytRunner(export(net)) as runner:
        [batch, features] = runner.get_input_metadata()["x"].shape
    assert isinstance(batch, str)
    assert features == 4


def test_training_is_switched_off_for_a_while(net: Net) -> None:
    net.train()
    net.dense.eval()
    with PytRunner(net) as runner:
        np.testing.assert_allclose(
            runner.infer({"x": X})["output_0"], expected(net), rtol=1e-5, atol=1e-6
        )
    assert net.training
    assert net.dropout.training
    assert not net.dense.training


def test_tensors_give_tensors(net: Net) -> None:
    given = torch.from_numpy(X)
    with PytRunner(net) as runner:
        outputs = runner.infer({"x": given})
        kept = outputs["output_0"].clone()
        runner.infer({"x": given * 2})
    assert all(isinstance(value, torch.Tensor) for value in outputs.values())
    assert torch.equal(outputs["output_0"], kept)
    assert not outputs["output_0"].requires_grad


def test_dictionaries_name_the_outputs() -> None:
    class Named(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return {"less": x - y, "none": None, "pair": (x, {"twice": y * 2})}

    with PytRunner(Named()) as runner:
        outputs = runner.infer({"x": X, "y": X + 1})
    assert list(outputs) == ["less", "pair.0", "pair.1.twice"]
    np.testing.assert_array_equal(outputs["pair.1.twice"], (X + 1) * 2)
    np.testing.assert_allclose(outputs["less"], -1, rtol=1e-5)


def test_arguments_with_defaults_are_no_inputs() -> None:
    class Optional(torch.nn.Module):
        def forward(self, x: Any, mask: Any = None, *, scale: float = 3.0) -> Any:
            return x * scale if mask is None else mask

    with PytRunner(Optional()) as runner:
        np.testing.assert_allclose(runner.infer({"x": X})["output_0"], X * 3)
    program = exported(Optional(), torch.ones(5, 4), torch.ones(5, 4), kwargs={"scale": 2.0})
    with PytRunner(program) as runner:
        assert list(runner.get_input_metadata()) == ["x", "mask"]
        np.testing.assert_array_equal(*runner.infer({"x": X, "mask": X + 1}).values(), X + 1)


def test_an_open_number_of_inputs_has_to_be_described() -> None:
    class Open(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return sum(tensors)

    with pytest.raises(UsageError, match="input_metadata"):
        PytRunner(Open()).activate()
    metadata = TensorMetadata().add("a", DataType.FLOAT32, None).add("b", DataType.FLOAT32, None)
    with PytRunner(Open(), metadata) as runner:
        np.testing.assert_array_equal(*runner.infer({"b": X, "a": X}).values(), X * 2)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.parametrize("kind", [lambda net: net, export], ids=["nn", "export"])
def test_compiled_models_compute_the_same(
    net: Net, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Any] = []
    compile_model = torch.compile

    def compile_quickly(model: Any = None, **options: Any) -> Any:
        if options:  # PyTorch's own modules compile, too, as they are imported.
            return compile_model(model, **options)
        compiled.append(model)
        return compile_model(model, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", compile_quickly)
    with PytRunner(kind(net), compiled=True) as runner:
        h, _ = runner.infer({"x": X}).values()
    assert len(compiled) == 1
    np.testing.assert_allclose(h, expected(net), rtol=1e-4, atol=1e-5)


def test_the_device_is_chosen(net: Net) -> None:
    with PytRunner(export(net), device="meta") as runner:
        assert {out.device.type for out in runner.infer({"x": torch.ones(2, 4)}).values()} == {
            "meta"
        }
    with PytRunner(Net(), device="meta") as runner:
        assert {out.device.type for out in runner.infer({"x": torch.ones(2, 4)}).values()} == {
            "meta"
        }
    with pytest.raises(BackendError, match="PyTorch could not start"):
        PytRunner(net, device="nowhere").activate()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.gpu
def test_on_a_gpu(net: Net) -> None:
    with PytRunner(export(net), device="cuda") as runner:
        h, _ = runner.infer({"x": X}).values()
        np.testing.assert_allclose(h, expected(net), rtol=1e-3, atol=1e-4)
        assert runner.infer({"x": torch.from_numpy(X)})["relu"].is_cuda


# Layer by layer.


def test_a_module_that_names_no_device_creates_tensors_on_that_of_its_inputs() -> None:
    """The device `meta` stands for a GPU: it refuses tensors of the CPU as well."""

    class Positions(torch.nn.Module):
        """Adds positions."""

        def forward(self, x: Any) -> Any:
            return x + torch.arange(x.shape[1])

    module = Module(Positions())
    module.start(None, compiled=False)
    given = [torch.ones(2, 3, device="meta")]
    assert module.run(given).device.type == "meta"
    assert "arange" in module.run_all(given)
    assert module.run([torch.ones(2, 3)]).device.type == "cpu"


def test_weights_in_half_precision_are_known(net: Net) -> None:
    with PytRunner(net) as runner:
        assert not runner.get_model_facts().compute_dtypes
    assert TorchProgram(net).weight_dtype is None
    half = net.bfloat16()
    for program in (half, exported(half, torch.ones(2, 4, dtype=torch.bfloat16))):
        with PytRunner(program) as runner:
            assert dict(runner.get_model_facts().compute_dtypes) == {"": "bfloat16"}
        assert TorchProgram(program).weight_dtype == "bfloat16"


class Kept(torch.nn.Module):
    """Uses tensors that are neither parameters nor buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.mask = torch.ones(3), None

    def forward(self, x: Any) -> Any:
        if self.mask is None:
            self.mask = torch.ones(3, 3).tril()
        picked = torch.zeros(2, 3)
        picked[:] = x * self.scale
        x.mul_(torch.ones_like(self.scale))
        return picked @ self.mask + torch.arange(3)[torch.zeros(1, dtype=torch.int64)]


def test_inputs_in_half_precision_are_widened_to_the_data_type_of_the_weights(net: Net) -> None:
    half = X.astype(np.float16)
    with PytRunner(net) as runner:
        name = next(iter(runner.get_input_metadata()))
        results = [[*runner.infer({name: x}).values()] for x in (half, half.astype(np.float32))]
    for narrow, wide in zip(*results):
        np.testing.assert_array_equal(narrow, wide, strict=True)


def test_tensors_that_a_module_keeps_elsewhere_are_used_on_the_device_of_its_inputs() -> None:
    """The device `meta` stands for a GPU: it refuses tensors of the CPU as well."""
    module = Module(Kept())
    module.start(None, compiled=False)
    given = [torch.ones(2, 3, device="meta")]
    assert module.run(given).device.type == "meta"
    np.testing.assert_array_equal(module.run([torch.ones(2, 3)])[0], [3, 2, 1])


def test_every_tensor_of_a_program_has_the_name_that_onnx_gives_it(net: Net) -> None:
    pytest.importorskip("onnxscript")
    from polygraphy.backend.onnx import OnnxReferenceRunner, modify_outputs

    program = export(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted = torch.onnx.export(program, dynamo=True, verbose=False)
    assert converted is not None
    model = modify_outputs(converted.model_proto, outputs=constants.MARK_ALL)
    with PytRunner(program, output_names=constants.MARK_ALL) as runner:
        ours = runner.infer({"x": X})
    with OnnxReferenceRunner(model) as runner:
        theirs = runner.infer({"x": X})
    shared = [name for name in ours if name in theirs]
    assert {"linear", "relu", "sum_1"} <= set(shared)
    for name in shared:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-5)


def test_a_module_is_exported_to_name_the_tensors_inside_it(net: Net) -> None:
    with PytRunner(net, output_names=constants.MARK_ALL) as runner:
        made = runner.infer({"x": X})
    with PytRunner(net) as runner:
        outputs = runner.infer({"x": X})
    assert len(made) >= len(outputs)
    for right in outputs.values():
        assert any(np.array_equal(value, right) for value in made.values())


def test_a_module_that_cannot_be_exported_does_not_name_them() -> None:
    class Branching(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x - 1

    with (
        PytRunner(Branching(), output_names=constants.MARK_ALL) as runner,
        pytest.raises(UsageError, match=r"torch\.export does not support the module"),
    ):
        runner.infer({"x": X})


def test_what_is_overwritten_later_is_kept() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x + 1
            y.mul_(2)
            return y.view(-1)

    with PytRunner(exported(InPlace(), torch.ones(5, 4)), None, constants.MARK_ALL) as runner:
        outputs = runner.infer({"x": X})
    np.testing.assert_array_equal(outputs["add"], X + 1)


# Files.


def test_files_are_distinguished(net: Net, tmp_path: Path) -> None:
    program, scripted, weights, text = (tmp_path / name for name in ("a.pt2", "b.pt", "c.pt", "d"))
    torch.export.save(export(net), program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(script(net), str(scripted))
    torch.save(net, weights)
    text.write_text("no model")
    for path in (program, scripted):
        with PytRunner(TorchFromPath(str(path))) as runner:
            h, _ = runner.infer({"x": X}).values()
        np.testing.assert_allclose(h, expected(net), rtol=1e-5, atol=1e-6)
    for path in (weights, text):
        with pytest.raises(ModelError, match="neither an exported PyTorch program"):
            torch_from_path(str(path))
    with pytest.raises(FileError, match="does not exist"):
        torch_from_path(str(tmp_path / "e.pt2"))
    content = program.read_bytes()
    program.write_bytes(content.replace(b'"graph_module"', b'"graph_mistake"'))
    with pytest.raises(ModelError, match=r"a\.pt2"):
        torch_from_path(str(program))


class _Writes:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


def test_pickled_objects_in_a_program_are_refused(net: Net, tmp_path: Path) -> None:
    program, changed, sign = tmp_path / "a.pt2", tmp_path / "b.pt2", tmp_path / "ran"
    torch.export.save(export(net), program)
    pickled = io.BytesIO()
    torch.save((((_Writes(sign),), {})), pickled)
    with zipfile.ZipFile(program) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            is_example = "sample_inputs/" in name
            new.writestr(name, pickled.getvalue() if is_example else old.read(name))
    with pytest.raises(ModelError, match=r"b\.pt2 contains pickled objects, which can run code"):
        torch_from_path(str(changed))
    assert not sign.exists()


@pytest.mark.parametrize("name", ["a.pt", "old.pth", "checkpoint.ckpt", "a.safetensors"])
def test_weights_alone_are_told_from_a_program(net: Net, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    state: dict[str, Any] = net.state_dict()
    if name == "checkpoint.ckpt":
        state = {"model": state, "epoch": 3}
    torch.save(state, path, _use_new_zipfile_serialization=name != "old.pth")
    with pytest.raises(ModelError, match="is a PyTorch checkpoint: it contains weights") as caught:
        torch_from_path(str(path))
    assert "load_state_dict" in str(caught.value)
    assert "\n" not in str(caught.value)


# Mistakes.


@pytest.mark.parametrize("value", [None, 3, {"weight": X}])
def test_what_is_no_model_is_named(value: Any) -> None:
    with pytest.raises(UsageError, match=type(value).__name__):
        PytRunner(value).activate()


def test_errors_of_the_model_are_ours(net: Net) -> None:
    class Bad(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise LookupError("of the model\nand more")

    def cannot_load() -> Any:
        raise LookupError("of the loader")

    with PytRunner(Bad()) as runner, pytest.raises(BackendError, match="of the model") as caught:
        runner.infer({"x": X})
    assert "\n" not in str(caught.value)
    line = Bad.forward.__code__.co_firstlineno + 1
    assert f"(test_runner.py, line {line})" in str(caught.value)
    line = cannot_load.__code__.co_firstlineno + 1
    with pytest.raises(BackendError, match=rf"of the loader.*\(test_runner\.py, line {line}\)"):
        PytRunner(cannot_load).activate()
    with PytRunner(net) as runner, pytest.raises(BackendError, match="shapes"):
        runner.infer({"x": X.T.copy()})
    with PytRunner(net, None, ["one"]) as runner, pytest.raises(BackendError, match="2 tensors"):
        runner.infer({"x": X})
    texts = TensorMetadata().add("x", DataType.STRING, None)
    with PytRunner(net, texts) as runner, pytest.raises(InputError, match="string"):
        runner.infer({"x": np.array(["a"])})


def test_the_compiler_is_not_loaded_after_tensorflow(
    net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = export(net)
    torch.export.save(program, tmp_path / "m.pt2")
    pytest.importorskip("triton")
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    with PytRunner(program):  # It is there already.
        pass
    monkeypatch.delitem(sys.modules, "triton")
    for runner in (
        PytRunner(program),
        PytRunner(net, compiled=True),
        PytRunner(TorchFromPath(str(tmp_path / "m.pt2"))),
    ):
        with pytest.raises(BackendError, match="--torch before --tf"):
            runner.activate()
    with PytRunner(net) as runner:
        runner.infer({"x": X})


# Data that belong to others.


class InPlace(torch.nn.Module):
    """Writes to its input in one way or another."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.act = torch.nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.way == "module":
            return {"y": self.act(x)}
        if self.way == "operator":
            x += 1
        elif self.way == "index":
            x[0] = 7
        else:
            x.clamp_(min=0).transpose_(0, 1)
        return {"y": x}


@pytest.mark.parametrize("way", ["module", "operator", "index", "methods"])
@pytest.mark.parametrize("kind", ["array", "read-only", "transposed", "tensor"])
def test_a_module_does_not_write_to_the_data_of_others(way: str, kind: str) -> None:
    data: Any = X.copy()
    if kind == "transposed":
        data = np.asfortranarray(data)
    data.flags.writeable = kind != "read-only"
    given = torch.from_numpy(data) if kind == "tensor" else data
    with PytRunner(InPlace(way)) as runner:
        made = [torch.as_tensor(runner.infer({"x": given})["y"]).numpy() for _ in range(2)]
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(made[0], made[1])


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_the_verdict_does_not_depend_on_the_order(streaming: bool, swapped: bool) -> None:
    """A wrong model passed, because it was given the outputs of the module before it."""
    wrong = models.dynamic_identity(("n", 4))
    runners: list[Any] = [
        PytRunner(InPlace("module"), TensorMetadata().add("X", np.float32, ["n", 4]), ["Y"]),
        OnnxrtRunner(SessionFromOnnx(wrong.SerializeToString())),
    ]
    results: Any = Comparator.run(
        runners[::-1] if swapped else runners, [{"X": X}], streaming=streaming
    )
    assert not Comparator.compare_accuracy(results)


def test_a_model_runs_in_a_process_of_its_own_after_pytorch_has_computed_here() -> None:
    """Its threads are not there after a fork, and it would wait for them forever."""
    large = torch.ones(1500, 1500)
    (large @ large).sum()
    net = torch.nn.Linear(1500, 1500)
    inputs = TensorMetadata().add("x", np.float32, (300, 1500))
    runner = PytRunner(lambda: net, inputs, ["y"])
    feed = {"x": np.ones((300, 1500), np.float32)}
    results = Comparator.run([runner], [feed], use_subprocess=True, subprocess_timeout=60)
    assert results[0][1][0]["y"].shape == (300, 1500)


class _Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.dense = torch.nn.Conv1d(3, 4, 1), torch.nn.Linear(5, 5)

    def forward(self, x: Any) -> Any:
        return self.dense(self.conv(x))


@pytest.mark.parametrize("form", ["module", "program"])
def test_what_pytorch_computes_in_tf32_on_a_gpu_is_known(form: str) -> None:
    """Convolutions by default, products only if they are allowed to; nothing on the CPU."""
    model: Any = _Mixed().eval()
    if form == "program":
        model = torch.export.export(model, (torch.ones(1, 3, 5),))
    gpu = torch.device("cuda", 0)
    with bind(computes_in_tf32, lambda gpu=0: True):
        assert compute_precision(model, torch.device("cpu")) is None
        found = compute_precision(model, gpu)
        assert found is not None
        assert found.describe() == "torch computes convolutions in TF32"
        torch.set_float32_matmul_precision("high")
        found = compute_precision(model, gpu)
        assert found is not None
        assert found.operators == ("convolutions", "matrix products")
        torch.set_float32_matmul_precision("highest")
        with torch.backends.cudnn.flags(allow_tf32=False):
            assert compute_precision(model, gpu) is None
    with bind(computes_in_tf32, lambda gpu=0: False):
        assert compute_precision(model, gpu) is None


def test_a_class_of_networks_is_not_a_loader_and_a_module_is_a_model(tmp_path: Path) -> None:
    script = tmp_path / "net.py"
    script.write_text(
        "from torch.nn import Linear\nclass Net(Linear):\n    def __init__(self):\n"
        "        super().__init__(2, 2)\ndef load_model():\n    return Net()\nmodel = load_model()\n"
    )
    with pytest.raises(UsageError, match=r"net.py:Net is a class.*Functions there: load_model\."):
        PytRunner(InvokeFromScript(str(script), "Net")).activate()
    with PytRunner(InvokeFromScript(str(script), "model")) as runner:
        assert list(runner.get_input_metadata()) == ["input"]
    script.write_text("1 / 0\nclass Net(nn.Module):\n    pass\ndef load_model():\n    pass\n")
    with pytest.raises(UsageError, match=r"is a class.*Functions there: load_model\."):
        PytRunner(InvokeFromScript(str(script), "Net")).activate()  # The script does not run.


def test_a_program_on_a_device_has_a_copy_on_the_cpu() -> None:
    net = torch.nn.Linear(2, 2)
    assert TorchProgram(net).on_host() is None
    assert TorchProgram(net, device="cpu").on_host() is None
    program = TorchProgram(net, device="meta")  # The device `meta` stands for a GPU.
    host = program.on_host()
    assert host is not None and program.uses_device and not host.uses_device
    assert next(net.parameters()).device.type == "meta"  # The program itself has not moved.


class WithState(torch.nn.Module):
    """A module whose state is None in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor, bias: Any = None, state: Any = None) -> Any:
        total = self.scale * x if state is None else self.scale * x + state
        return (total if bias is None else total + bias), total


@pytest.mark.parametrize("names", [None, constants.MARK_ALL], ids=["outputs", "tensors"])
def test_an_optional_parameter_is_an_input_if_there_are_data_for_it(names: Any) -> None:
    feed = {"x": np.ones(2, np.float32), "other": np.ones(1), "state": np.full(2, 5, np.float32)}
    runner = PytRunner(WithState(), output_names=names)
    [[_, results]] = Comparator.run([runner], data_loader=[feed])
    assert any(np.array_equal(array, [7, 7]) for array in results[0].values())
