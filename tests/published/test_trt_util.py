"""polygraphy.backend.trt.util over a module that stands for TensorRT. What is expected was printed by
NVIDIA's Polygraphy 0.53.6 over the same one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.library.module import use_module
from polygraphy.backend.trt import Profile, get_trt_logger, util
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.exception import PolygraphyException

Types = enum.Enum("DataType", {"FLOAT": 0, "HALF": 1, "INT32": 3, "BOOL": 4, "INT64": 8})
Kinds = enum.Enum("LayerType", "MATRIX_MULTIPLY ACTIVATION CONSTANT SHAPE CONVOLUTION")
Modes = enum.Enum("TensorIOMode", "NONE INPUT OUTPUT")
Formats = enum.Enum("TensorFormat", "LINEAR CHW4")
Pools = enum.Enum("MemoryPoolType", "WORKSPACE DLA_MANAGED_SRAM")
Sources = enum.IntEnum("TacticSource", "CUBLAS CUDNN", start=0)


class Module(SimpleNamespace):
    """Stands for the module; a key, as modules are."""

    __hash__ = object.__hash__


class Layer:
    """The base class of layers, which networks hand out."""

    def __init__(self, name: str, kind: Any, inputs: list[Any], outputs: list[Any]) -> None:
        self.name, self.type = name, kind
        self.num_inputs, self.num_outputs = len(inputs), len(outputs)
        self.get_input, self.get_output = inputs.__getitem__, outputs.__getitem__


class Network:
    name, num_inputs, num_layers = "net", 2, 5

    def __init__(self) -> None:
        def tensor(name: str, *shape: int, dtype: Any = Types.FLOAT, is_shape: bool = False) -> Any:
            return SimpleNamespace(name=name, shape=shape, dtype=dtype, is_shape_tensor=is_shape)

        x, size = tensor("x", -1, 3), tensor("size", 2, dtype=Types.INT32, is_shape=True)
        c, h, r = tensor("c", 3, 4), tensor("h", -1, 4), tensor("r", -1, 4)
        shape = tensor("sp", 2, dtype=Types.INT64, is_shape=True)
        self.layers = [
            Layer("const", Kinds.CONSTANT, [], [c]),
            Layer("mm", Kinds.MATRIX_MULTIPLY, [x, c], [h]),
            Layer("act", Kinds.ACTIVATION, [h], [r]),
            Layer("shape", Kinds.SHAPE, [h], [shape]),
            Layer("eq", Kinds.CONVOLUTION, [h, None], [tensor("b", -1, 4, dtype=Types.BOOL)]),
        ]
        self.outputs = [r]
        self.get_input, self.get_layer = [x, size].__getitem__, self.layers.__getitem__

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def get_output(self, index: int) -> Any:
        return self.outputs[index]

    def get_flag(self, _: Any) -> bool:
        return False

    def mark_output(self, tensor: Any) -> None:
        self.outputs.append(tensor)

    def unmark_output(self, tensor: Any) -> None:
        self.outputs = [each for each in self.outputs if each.name != tensor.name]


class Engine:
    num_io_tensors, num_optimization_profiles = 2, 3

    def get_tensor_name(self, index: int) -> str:
        return "xy"[index]

    def get_tensor_mode(self, name: str) -> Any:
        return Modes.INPUT if name == "x" else Modes.OUTPUT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (-1, 3, 2, 2)

    def get_tensor_dtype(self, name: str) -> Any:
        return Types.FLOAT

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[tuple[int, ...]]:
        return [(1, 3, 2, 2)] * 3

    def get_tensor_format(self, name: str, profile: int) -> Any:
        return Formats.CHW4 if profile == 1 else Formats.LINEAR

    def get_tensor_vectorized_dim(self, name: str, profile: int) -> int:
        return 1

    def get_tensor_components_per_element(self, name: str, profile: int) -> int:
        return 4

    def get_tensor_location(self, name: str) -> str:
        return "DEVICE"


class Context:
    engine = Engine()
    active_optimization_profile = 1

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (1, 3, 2, 2)

    def get_tensor_strides(self, name: str) -> tuple[int, ...]:
        return (4, 4, 2, 1)


@pytest.fixture(autouse=True)
def trt() -> Iterator[Any]:
    classes = {
        f"I{name}Layer": type(f"I{name}Layer", (Layer,), {}) for name in ("Shape", "Constant")
    }
    classes["IShapeLayer"].reshape_mode = "mode"  # type: ignore[attr-defined]
    module = Module(
        __name__="tensorrt", __version__="10.3.0", DataType=Types, LayerType=Kinds,
        TensorIOMode=Modes, TensorFormat=Formats, TensorLocation=SimpleNamespace(HOST="HOST"),
        ILayer=Layer, Dims=tuple, Permutation=list, Weights=type("Weights", (), {}),
        ILogger=type("ILogger", (), {}), MemoryPoolType=Pools, TacticSource=Sources,
        BuilderFlag=enum.Enum("BuilderFlag", "FP16 INT8 TF32"),
        PreviewFeature=enum.Enum("PreviewFeature", "A B"),
        DeviceType=enum.Enum("DeviceType", "GPU DLA"),
        NetworkDefinitionCreationFlag=SimpleNamespace(), **classes,
    )  # fmt: skip
    with use_module(module):
        yield module


def marked(change: Any, *arguments: Any) -> list[str]:
    network = Network()
    assert change(network, *arguments) is None
    return [tensor.name for tensor in network.outputs]


def test_tensors() -> None:
    assert [*util.get_all_tensors(Network())] == ["x", "size", "c", "h", "r", "sp", "b"]
    assert [*util.get_all_io_tensors(Network())] == ["x", "size", "r"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["h"], ["h"]), (["r", "h"], ["r", "h"]), (["h*"], ["h"]), (["x"], ["x"])],
)
def test_marked_outputs(names: list[str], expected: list[str]) -> None:
    assert marked(util.mark_outputs, names) == expected


def test_marks() -> None:
    assert marked(util.unmark_outputs, ["r"]) == []
    assert marked(util.unmark_outputs, ["h"]) == ["r"]
    assert marked(util.mark_layerwise) == ["h", "r"]
    assert marked(util.mark_by_layer_type, ["MATRIX_MULTIPLY", "activation"]) == ["h", "r"]
    for change in (util.mark_outputs, util.unmark_outputs, util.mark_by_layer_type):
        with pytest.raises(PolygraphyException, match="'NOPE' does not exist"):
            change(Network(), ["NOPE"])
    with pytest.raises(PolygraphyException):
        util.mark_outputs(Network(), [])


def native_profile() -> Any:
    return SimpleNamespace(
        get_shape=lambda name: [(1, 3), (2, 3), (4, 3)],
        get_shape_input=lambda name: [(1, 1), (2, 2), (3, 3)],
    )


def own_profile() -> Any:
    ours = Profile().add("x", (1, 3), (2, 3), (4, 3))
    return ours.add("size", (1, 1), (2, 2), (3, 3))


@pytest.mark.parametrize("make_profile", [native_profile, own_profile])
def test_metadata_of_a_profile(make_profile: Any) -> None:
    found = util.get_input_metadata_from_network(Network(), make_profile())
    facts = {
        name: (list(meta.shape), meta.shape.min, meta.shape.max) for name, meta in found.items()
    }
    assert facts == {"x": ([-1, 3], (1, 3), (4, 3)), "size": ([2], (1, 1), (3, 3))}
    usual = util.get_input_metadata_from_network(Network(), make_profile(), force_opt_shapes=True)
    assert usual["x"].shape == [2, 3] and usual["x"].shape.min is None


def test_layers() -> None:
    assert set(util.get_layer_class_mapping()) == {Kinds.SHAPE, Kinds.CONSTANT}
    text = util.str_from_network(Network(), show_layers=True)
    assert text.startswith(
        "Name: net | Explicit Batch Network\n\n---- 2 Network Input(s) ----\n{x ["
    )
    assert "\n\n---- 5 Layer(s) ----\nLayer 0    | const [Op: LayerType.CONSTANT]\n" in text


def test_a_configuration(trt: Any) -> None:
    config = SimpleNamespace(
        engine_capability="STANDARD", num_optimization_profiles=1, profiling_verbosity="DETAILED",
        default_device_type=trt.DeviceType.GPU, DLA_core=-1, int8_calibrator=None,
        get_flag=lambda flag: flag.name == "FP16", get_tactic_sources=lambda: 3,
        get_memory_pool_limit=lambda pool: 1 << 20, get_preview_feature=lambda feature: False,
    )  # fmt: skip
    lines = [
        "Flags                  | [FP16]",
        "Engine Capability      | STANDARD",
        "Memory Pools           | [WORKSPACE: 1.00 MiB]",
        "Tactic Sources         | [CUBLAS, CUDNN]",
        "Profiling Verbosity    | DETAILED",
    ]
    assert util.str_from_config(config, Network()).splitlines() == lines
    bare = SimpleNamespace(**{**vars(config), "get_flag": lambda flag: False})
    assert util.str_from_config(bare, Network()).splitlines()[0] == "Flags                  | []"
    config.num_optimization_profiles, config.DLA_core = 2, 1
    config.default_device_type = trt.DeviceType.DLA
    config.get_preview_feature = lambda feature: feature.name == "A"
    lines[2] = "Memory Pools           | [WORKSPACE: 1.00 MiB, DLA_MANAGED_SRAM: 1.00 MiB]"
    lines.insert(4, "DLA                    | Default Device Type: DeviceType.DLA, Core: 1")
    lines += ["Optimization Profiles  | 2 profile(s)", "Preview Features       | [A]"]
    assert util.str_from_config(config, Network()).splitlines() == lines


def test_engines(capsys: pytest.CaptureFixture[str]) -> None:
    expected = TensorMetadata().add("x", DataType.FLOAT32, [-1, 3, 2, 2])
    assert util.get_metadata_from_engine(Engine(), Context(), Modes.INPUT) == expected
    assert util.get_metadata_from_engine(Engine(), Context(), Modes.NONE) == TensorMetadata()
    assert util.get_bindings_per_profile(Engine()) == 2
    old = SimpleNamespace(num_bindings=6, num_optimization_profiles=3)
    assert util.get_bindings_per_profile(old) == 2
    assert util.get_active_profile_bindings(Context()) == (2, 4)
    assert util.get_input_metadata_from_engine(Engine(), 2, 4) == expected
    assert util.np_dtype_from_trt(Types.HALF) == np.float16
    logged = capsys.readouterr().out
    for name in ("get_bindings_per_profile", "get_active_profile_bindings", "np_dtype_from_trt"):
        assert f"[W] {name} is deprecated and will be removed in Polygraphy 2.0." in logged


def test_a_replaced_function_is_called_through_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "get_bindings_per_profile", lambda engine: 5)
    assert util.get_active_profile_bindings(Context()) == (5, 10)


def parser(*errors: str) -> Any:
    made = [
        SimpleNamespace(desc=lambda text=text: text, node=lambda: 3, code=lambda: "UNSUPPORTED")
        for text in errors
    ]
    return SimpleNamespace(num_errors=len(made), get_error=made.__getitem__)


def test_checks(capsys: pytest.CaptureFixture[str]) -> None:
    util.check_onnx_parser_errors(parser(), True)
    for wrong in ((parser("bad"), False), (parser("bad"), True), (parser(), False)):
        with pytest.raises(PolygraphyException, match="could not parse the ONNX model"):
            util.check_onnx_parser_errors(*wrong)
    assert "node 3: UNSUPPORTED: bad" in capsys.readouterr().out


def test_the_logger_is_none_until_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polygraphy.adapters.tensorrt.library.module._CurrentLogger.logger", None)
    assert util.TRT_LOGGER is None
    made = util.get_trt_logger()
    assert util.TRT_LOGGER is made is get_trt_logger()
    with pytest.raises(AttributeError):
        _ = util.NOTHING


def test_what_a_release_lacks_is_said() -> None:
    with pytest.raises(
        PolygraphyException, match=r"^refitting is not available in TensorRT 10\.3\.0"
    ):
        util.fail_unavailable("refitting")
