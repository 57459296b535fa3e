"""Networks and engines as text: networks of TensorRT-RTX, engines that are faked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.console.models.engine_text import engine_lines, network_lines
from polygraphy.adapters.console.models.reports import size_lines
from polygraphy.adapters.tensorrt.describe.describe_engine import describe_engine
from polygraphy.adapters.tensorrt.describe.describe_network import describe_network
from polygraphy.adapters.tensorrt.library.module import tensorrt_module, use_module
from polygraphy.adapters.tensorrt.plan.reader import describe_file
from polygraphy.backend.trt import create_network, network_from_onnx_bytes
from polygraphy.comparator import IterationResult, RunResults
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.domain.model.engine import statistics_of_built
from polygraphy.domain.tensors.datatype import DataType
from tests.support import models

Range = Sequence[Sequence[int]]


class Engine:
    """Answers what is asked of an engine and of its contexts and inspector."""

    name = "Unnamed Network 0"

    def __init__(
        self,
        tensors: Mapping[str, tuple[Sequence[int], list[Range]]],
        *,
        layers: Sequence[Any] = (),
        refittable: bool = False,
        memory: int = 0,
        first_shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self._tensors = tensors
        self.num_io_tensors = len(tensors)
        self.num_optimization_profiles = max(len(ranges) for _, ranges in tensors.values())
        self.layers = layers
        self.num_layers = len(layers)
        self.refittable = refittable
        self.device_memory_size = memory
        self._first = first_shapes or {}

    def get_tensor_name(self, index: int) -> str:
        return list(self._tensors)[index]

    def get_tensor_mode(self, name: str) -> str:
        return "input" if self._tensors[name][1] else "output"

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name="INT32" if "shape" in name else "FLOAT")

    def get_tensor_shape(self, name: str) -> Sequence[int]:
        return self._tensors[name][0]

    def is_shape_inference_io(self, name: str) -> bool:
        return "shape" in name

    def get_tensor_profile_shape(self, name: str, profile: int) -> Range:
        return self._tensors[name][1][profile]

    def get_profile_shape_input(self, profile: int, name: str) -> Range:
        return self._tensors[name][1][profile]

    def create_execution_context_without_device_memory(self) -> Any:
        shapes = {name: shape for name, (shape, _) in self._tensors.items()} | dict(self._first)
        return SimpleNamespace(get_tensor_shape=shapes.__getitem__)

    def create_engine_inspector(self) -> Any:
        text = json.dumps({"Layers": self.layers, "Bindings": []})
        return SimpleNamespace(get_engine_information=lambda format: text)


@pytest.fixture
def fake() -> Iterator[None]:
    module = SimpleNamespace(
        __name__="tensorrt",
        TensorIOMode=SimpleNamespace(INPUT="input"),
        LayerInformationFormat=SimpleNamespace(JSON=1),
    )
    with use_module(module):
        yield


def text(engine: Engine, **detail: Any) -> str:
    return "\n".join(engine_lines(describe_engine(engine, **detail)))


def identity(**facts: Any) -> Engine:
    shape = (1, 1, 2, 2)
    return Engine({"x": (shape, [[shape] * 3]), "y": (shape, [])}, layers=["node_of_y"], **facts)


def test_an_engine_reads_as_in_the_transcript(fake: None) -> None:
    assert text(identity()) == """\
==== TensorRT Engine ====
Name: Unnamed Network 0 | Explicit Batch Engine

---- 1 Engine Input(s) ----
{x [dtype=float32, shape=(1, 1, 2, 2)]}

---- 1 Engine Output(s) ----
{y [dtype=float32, shape=(1, 1, 2, 2)]}

---- Memory ----
Device Memory: 0 bytes

---- 1 Profile(s) (2 Tensor(s) Each) ----
- Profile: 0
    Tensor: x          (Input), Index: 0 | Shapes: min=(1, 1, 2, 2), opt=(1, 1, 2, 2), max=(1, 1, 2, 2)
    Tensor: y         (Output), Index: 1 | Shape: (1, 1, 2, 2)

---- 1 Layer(s) ----"""


def test_several_profiles(fake: None) -> None:
    def batch(*sizes: int) -> list[tuple[int, ...]]:
        return [(size, 3, 28, 28) for size in sizes]

    engine = Engine(
        {
            "X": ((-1, 3, 28, 28), [batch(1, 1, 1), batch(1, 4, 32), batch(128, 128, 128)]),
            "Y": ((-1, 3, 28, 28), []),
        },
        layers=[{"Name": f"copy{i}", "LayerType": "Reformat"} for i in range(3)],
        first_shapes={"X": (9, 9, 9, 9), "Y": (1, 3, 28, 28)},
        refittable=True,
        memory=512,
    )
    lines = text(engine, layers=True).splitlines()
    assert lines[1] == "Name: Unnamed Network 0 | Refittable Explicit Batch Engine"
    assert "{X [dtype=float32, shape=(-1, 3, 28, 28)]}" in lines
    assert "{Y [dtype=float32, shape=(1, 3, 28, 28)]}" in lines
    assert "Device Memory: 512 bytes" in lines
    start = lines.index("---- 3 Profile(s) (2 Tensor(s) Each) ----")
    assert lines[start + 5 : start + 8] == [
        "- Profile: 1",
        "    Tensor: X          (Input), Index: 0 | Shapes: min=(1, 3, 28, 28), opt=(4, 3, 28, 28), max=(32, 3, 28, 28)",
        "    Tensor: Y         (Output), Index: 1 | Shape: (-1, 3, 28, 28)",
    ]
    start = lines.index("---- 1 Layer(s) Per Profile ----")
    assert [line.strip() for line in lines[start + 1 :]] == [
        "- Profile: 0", "Layer 0    | copy0 [Op: Reformat]", "{} -> {}", "",
        "- Profile: 1", "Layer 0    | copy1 [Op: Reformat]", "{} -> {}", "",
        "- Profile: 2", "Layer 0    | copy2 [Op: Reformat]", "{} -> {}",
    ]  # fmt: skip


def layer(name: str, layout: str, **facts: Any) -> dict[str, Any]:
    tensor = {"Name": f"{name}_out", "Dimensions": [1, 4], "Format/Datatype": layout}
    return {"Name": name, "LayerType": "Mul", "Inputs": [], "Outputs": [tensor], **facts}


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [
        ("Row major linear FP32", DataType.FLOAT32),
        ("Row major linear FP16 format", DataType.FLOAT16),
        ("Four wide channel vectorized row major Int8 format", DataType.INT8),
        ("Row major linear UINT8 format", DataType.UINT8),
        ("Row major linear BF16", DataType.BFLOAT16),
        ("Something else", None),
    ],
)
def test_data_types_are_whole_words_of_the_layout(fake: None, layout: str, dtype: Any) -> None:
    engine = identity()
    engine.layers = [layer("mul", layout)]
    [described] = describe_engine(engine, layers=True).layers
    assert described.outputs["mul_out"].dtype == dtype
    assert f"Format: {layout}" in str(described.outputs)


def test_attributes_of_layers(fake: None) -> None:
    engine = identity()
    engine.layers = [
        layer(
            "mul", "FP32", ParameterType="Pointwise", TacticValue="0x1d", NetworkSource="POINTWISE"
        )
    ]
    lines = text(engine, layers=True, attrs=True).splitlines()
    assert lines[-6:] == [
        "Layer 0    | mul [Op: Mul]",
        "    {} -> {mul_out [dtype=float32, shape=(1, 4), Format: FP32]}",
        "    ---- Attributes ----",
        "    NetworkSource = POINTWISE",
        "    Tactic = 0x1d",
        "    ParameterType = Pointwise",
    ]
    assert "NetworkSource" not in text(engine, layers=True)


def test_later_modules_tell_format_and_data_type_apart(fake: None) -> None:
    engine = identity()
    engine.layers = [layer("mul", "")]
    engine.layers[0]["Outputs"][0].update({"Format": "Row major", "Datatype": "Half"})
    [described] = describe_engine(engine, layers=True).layers
    assert str(described.outputs) == "{mul_out [dtype=float16, shape=(1, 4), Format: Row major]}"


def test_layers_of_which_only_the_name_is_kept(fake: None) -> None:
    assert text(identity(), layers=True).splitlines()[-1] == "Layer 0    | node_of_y"


def test_inputs_that_are_shapes_have_ranges_of_values(fake: None) -> None:
    engine = Engine({"shape": ((2,), [[(1, 1), (2, 2), (4, 4)]]), "y": ((-1, -1), [])})
    assert "| Values: min=(1, 1), opt=(2, 2), max=(4, 4)" in text(engine)
    assert "{shape [dtype=int32, shape=(2,)]}" in text(engine)


def test_an_engine_without_a_context_is_described(fake: None) -> None:
    engine = identity()

    def fails() -> None:
        raise RuntimeError("no memory")

    engine.create_execution_context_without_device_memory = fails  # type: ignore[method-assign]
    assert "{y [dtype=float32, shape=(1, 1, 2, 2)]}" in text(engine)


def network_text(parts: Any, **detail: Any) -> str:
    return "\n".join(network_lines(describe_network(parts[1], **detail)))


def test_a_network_reads_as_in_the_tool_that_people_know(rtx: Any) -> None:
    parts = network_from_onnx_bytes(models.identity().SerializeToString())
    assert network_text(parts, layers=True) == """\
==== TensorRT Network ====
Name: Unnamed Network 0 | Explicit Batch Strongly Typed Network

---- 1 Network Input(s) ----
{x [dtype=float32, shape=(1, 1, 2, 2)]}

---- 1 Network Output(s) ----
{y [dtype=float32, shape=(1, 1, 2, 2)]}

---- 1 Layer(s) ----
Layer 0    | node_of_y [Op: LayerType.IDENTITY]
    {x [dtype=float32, shape=(1, 1, 2, 2)]}
     -> {y [dtype=float32, shape=(1, 1, 2, 2)]}"""
    assert network_text(parts).splitlines()[-1] == "---- 1 Layer(s) ----"


def test_attributes_and_weights_of_a_network(rtx: Any) -> None:
    parts = network_from_onnx_bytes(models.conv_net().SerializeToString())
    lines = [line.strip() for line in network_text(parts, layers=True, attrs=True).splitlines()]
    start = lines.index("Layer 0    | conv [Op: LayerType.CONVOLUTION]")
    assert lines[start + 1 : start + 5] == [
        "{x [dtype=float32, shape=(-1, 3, 16, 16)]}",
        "-> {conv_output [dtype=float32, shape=(-1, 8, 16, 16)]}",
        "---- Attributes ----",
        "conv.dilation_nd = (1, 1)",
    ]
    assert "conv.stride_nd = (1, 1)" in lines and "relu.alpha = 0.0" in lines
    assert "Layer 1    | relu [Op: ActivationType.RELU]" in lines
    assert not any(line.startswith("conv.kernel =") for line in lines)
    described = describe_network(parts[1], layers=True, attrs=True, weights=True)
    weights = described.layers[0].attributes
    original = {one.name: one for one in models.conv_net().graph.initializer}["conv.bias"]
    assert np.array_equal(weights["bias"], np.frombuffer(original.raw_data, np.float32))
    assert type(parts[1].get_layer(0)) is rtx.ILayer


def test_every_type_of_layer_has_its_class(rtx: Any) -> None:
    from polygraphy.adapters.tensorrt.describe.describe_network import (
        _layer_classes,
        _strip_underscores,
    )

    classes = _layer_classes(rtx)
    unknown = {
        name for name in rtx.LayerType.__members__ if _strip_underscores(name) not in classes
    }
    assert not unknown & {
        "CONVOLUTION", "MATRIX_MULTIPLY", "ELEMENTWISE", "TOPK", "CONDITIONAL_INPUT",
        "CONDITIONAL_OUTPUT", "LOOP_OUTPUT", "TRIP_LIMIT", "RAGGED_SOFTMAX", "NMS", "LRN",
    }  # fmt: skip


SCRIPT = """
from polygraphy import func
from polygraphy.backend.trt import CreateNetwork
from polygraphy.adapters.tensorrt.library.module import trt

@func.extend(CreateNetwork())
def load_network(builder, network):
    network.name = "mine"
    x = network.add_input("x", shape=(1, 2), dtype=trt.float32)
    network.mark_output(network.add_identity(x).get_output(0))

def nothing():
    pass
"""


def test_networks_are_read_from_scripts_and_models(rtx: Any, tmp_path: Path) -> None:
    script = tmp_path / "net.py"
    script.write_text(SCRIPT)
    read = describe_file
    kind = "trt-network-script"
    for path, func in (
        (str(script), None),
        (f"{script}:load_network", None),
        (str(script), "load_network"),
    ):
        described = read(ModelSource(path, kind=kind, network_func=func), Detail(layers=True))
        assert (described.name, len(described.layers)) == ("mine", 1)
    with pytest.raises(UsageError, match=r"nothing in .* returns nothing"):
        read(ModelSource(f"{script}:nothing", kind=kind), Detail())
    models.save(models.mlp(), tmp_path / "m.onnx")
    assert list(read(ModelSource(str(tmp_path / "m.onnx")), Detail()).inputs) == ["x"]
    with pytest.raises(FileError, match="does not exist"):
        read(ModelSource(str(tmp_path / "m.engine"), kind="engine"), Detail())


def test_statistics_of_saved_outputs_are_shown_with_layers(fake: None, tmp_path: Path) -> None:
    from polygraphy.adapters.tensorrt.plan.reader import notes_of

    results = RunResults()
    results.append(("r", [IterationResult({"mul_out": np.array([1.0, 3.0])})]))
    results.save(str(tmp_path / "o.json"))
    engine = identity()
    engine.layers = [layer("mul", "FP32")]
    notes = notes_of(str(tmp_path / "o.json"))
    [described] = describe_engine(engine, layers=True, notes=notes).layers
    assert "Format: FP32, min=1, max=3, avg=2]" in str(described.outputs)


def test_an_empty_network(rtx: Any) -> None:
    assert describe_network(create_network()[1]).layer_count == 0


def test_statistics_of_an_engine(fake: None) -> None:
    tensors = {
        "x": ((-1, 8), [[(1, 8), (2, 8), (4, 8)]]),
        "y": ((2, 3), []),
        "z": ((-1, 3), []),
    }
    engine = Engine(tensors, layers=[layer("a", "FP16"), layer("b", "FP16"), "c"], memory=2048)
    described = describe_engine(engine, layers=True, sizes=True)
    assert described.weight_bytes is None  # TensorRT of that version does not tell.
    statistics = statistics_of_built(described)
    assert statistics.precisions == {"float16": 2, "(unknown)": 1}
    assert (statistics.input_bytes, statistics.output_bytes) == (4 * 8 * 4, 2 * 3 * 4)
    lines = list(size_lines(statistics))
    assert "Device Memory | 2.00 KiB" in lines
    assert "Inputs        | 128 bytes, at the largest shapes of profile 0" in lines
    assert "Not Counted   | z, of unknown size" in lines


def test_an_engine_is_asked_for_the_size_of_its_weights(fake: None) -> None:
    engine = identity()
    tensorrt_module().EngineStat = SimpleNamespace(TOTAL_WEIGHTS_SIZE=7)
    engine.get_engine_stat = {7: 1 << 20}.__getitem__  # type: ignore[attr-defined]
    assert describe_engine(engine).weight_bytes is None
    described = describe_engine(engine, sizes=True)
    assert described.weight_bytes == 1 << 20
    assert "Weights       | 1.00 MiB" in size_lines(statistics_of_built(described))
