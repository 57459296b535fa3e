"""Where TensorRT has flags for precisions (8.6, 10.x): the right calls, by the recorded names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.tensorrt.library.module import trt, use_module
from polygraphy.adapters.tensorrt.network import network as network_module
from polygraphy.adapters.tensorrt.network.onnx_network import NetworkSource, remember_source
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    SetLayerPrecisions,
    create_config,
    create_network,
)
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.tensors.facts import Facts
from tests.support import models
from tests.support.tensorrt_names import named_module, names_of

OLD = ["8.6.0", "10.0.1", "10.16.1.11"]
PROFILE = Profile().add("x", (1, 8), (2, 8), (4, 8))


class Config:
    """Stands for an IBuilderConfig of a version, and has no attribute that the real one lacks."""

    def __init__(self, version: str) -> None:
        known = names_of(version)
        own = "IBuilderConfig."
        members = {name.removeprefix(own) for name in known if name.startswith(own)}
        vars(self).update(_members=members, on=set(), cleared=set(), preview={}, pools={})

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self._members, f"IBuilderConfig has no {name}"
        vars(self)[name] = value

    def set_flag(self, flag: Any) -> None:
        self.on.add(flag.name)

    def get_flag(self, flag: Any) -> bool:
        return flag.name in self.on

    def clear_flag(self, flag: Any) -> None:
        self.cleared.add(flag.name)

    def set_quantization_flag(self, flag: Any) -> None:
        self.on.add(flag.name)

    def clear_quantization_flag(self, flag: Any) -> None:
        self.cleared.add(flag.name)

    def add_optimization_profile(self, profile: Any) -> int:
        return 0

    def set_calibration_profile(self, profile: Any) -> bool:
        vars(self)["calibrated_with"] = profile
        return True


class Network:
    """Stands for a network of one input and some layers."""

    num_inputs = num_outputs = 1

    def __init__(self, *kinds: str, strongly_typed: bool = False) -> None:
        self._layers = [
            SimpleNamespace(name=kind, type=SimpleNamespace(name=kind)) for kind in kinds
        ]
        self._strongly_typed = strongly_typed
        self.num_layers = len(kinds)

    def get_input(self, index: int) -> Any:
        dtype = SimpleNamespace(name="FLOAT")
        return SimpleNamespace(name="x", shape=(-1, 8), dtype=dtype, is_shape_tensor=False)

    def get_layer(self, index: int) -> Any:
        return self._layers[index]

    def get_flag(self, flag: Any) -> bool:
        return self._strongly_typed and flag.name == "STRONGLY_TYPED"


class Builder:
    """Stands for a builder."""

    num_DLA_cores = 0

    def __init__(self, version: str) -> None:
        self.version = version
        self.flags: int | None = None

    def create_builder_config(self) -> Config:
        return Config(self.version)

    def create_network(self, flags: int) -> Network:
        self.flags = flags
        return Network()

    def create_optimization_profile(self) -> Any:
        return SimpleNamespace(set_shape=lambda *shapes: None)


@pytest.fixture(params=OLD)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make a recorded version the TensorRT in use."""
    with use_module(named_module(request.param)):
        yield request.param


def configured(version: str, *kinds: str, **settings: Any) -> Config:
    settings.setdefault("profiles", [PROFILE])
    made: Config = create_config(Builder(version), Network(*kinds), **settings)
    return made


def test_precisions_are_flags(version: str) -> None:
    config = configured(version, fp16=True, int8=True, fp8=True)
    assert {"FP16", "INT8", "FP8"} <= config.on
    assert config.cleared == {"TF32"}
    assert "TF32" in configured(version, tf32=True).on
    assert configured(version).on == set()


def test_bf16_is_a_flag_where_there_is_one(version: str) -> None:
    if version == "8.6.0":
        with pytest.raises(BackendError, match=r"BuilderFlag\.BF16"):
            configured(version, bf16=True)
    else:
        assert configured(version, bf16=True).on == {"BF16"}


@pytest.mark.parametrize("constraint", ["obey", "prefer"])
def test_precision_constraints_are_flags(version: str, constraint: str) -> None:
    flag = f"{constraint.upper()}_PRECISION_CONSTRAINTS"
    assert configured(version, precision_constraints=constraint).on == {flag}
    assert configured(version, precision_constraints="none").on == set()


def test_quantization_flags_are_exactly_those(version: str) -> None:
    flag = "CALIBRATE_BEFORE_FUSION"
    assert configured(version, quantization_flags=[flag.lower()]).on == {flag}
    assert flag in configured(version, quantization_flags=[]).cleared


def test_a_calibrator_gets_the_metadata_and_the_last_profile(version: str) -> None:
    class Calibrator:
        def set_input_metadata(self, metadata: Any) -> None:
            self.metadata = metadata

    calibrator = Calibrator()
    config = configured(version, int8=True, calibrator=calibrator)
    assert vars(config)["int8_calibrator"] is calibrator
    assert config.calibrated_with is not None
    assert tuple(calibrator.metadata["x"].shape) == (2, 8)


def test_a_calibrator_is_reported_what_the_model_file_tells(version: str, tmp_path: Path) -> None:
    class Calibrator:
        def set_model_facts(self, facts: Facts) -> None:
            self.hints = facts.input_hints

    weights = {"rows": np.zeros((30, 4), np.float32)}
    nodes = [helper.make_node("Gather", ["rows", "x"], ["y"])]
    inputs = [models.value("x", ("n", 8), TensorProto.INT64)]
    outputs = [models.value("y", ("n", 8, 4))]
    models.save(models.make("table", nodes, inputs, outputs, weights=weights), tmp_path / "m.onnx")
    network, calibrator = Network(), Calibrator()
    remember_source(network, NetworkSource(parse=None, model=str(tmp_path / "m.onnx")))
    create_config(Builder(version), network, int8=True, calibrator=calibrator, profiles=[PROFILE])
    assert calibrator.hints["x"].high == 29
    del calibrator.hints
    configured(version, int8=True, calibrator=calibrator)  # Of a network from elsewhere.
    assert not hasattr(calibrator, "hints")


@pytest.mark.parametrize(
    ("kinds", "settings"), [(["QUANTIZE"], {"int8": True}), (["ACTIVATION"], {"int8": False})]
)
def test_a_calibrator_is_not_used_without_need(
    version: str, kinds: list[str], settings: dict[str, bool]
) -> None:
    config = configured(version, *kinds, calibrator=object(), **settings)
    assert "int8_calibrator" not in vars(config)


def test_a_selector_keeps_the_timing_cache_out_of_the_way(version: str) -> None:
    selector = object()
    config = configured(version, algorithm_selector=selector)
    assert vars(config)["algorithm_selector"] is selector
    assert "DISABLE_TIMING_CACHE" in config.on


def test_the_dla(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match=r"\(--use-dla\): .* no DLA.*\(--allow-gpu-fallback\)"):
        configured(version, use_dla=True)
    assert configured(version, use_dla=True, allow_gpu_fallback=True).on == {"GPU_FALLBACK"}
    monkeypatch.setattr(Builder, "num_DLA_cores", 2)
    config = configured(version, use_dla=True)
    assert (vars(config)["default_device_type"].name, vars(config)["DLA_core"]) == ("DLA", 0)
    assert config.on == {"PREFER_PRECISION_CONSTRAINTS", "DIRECT_IO"}


def test_flags_of_a_strongly_typed_network_are_refused_before_the_build() -> None:
    version = "10.16.1.11"
    with use_module(named_module(version)):
        parts = (Builder(version), Network("IDENTITY", strongly_typed=True))
        config = CreateConfig(fp16=True, profiles=[Profile().add("x", (1, 8), (1, 8), (1, 8))])
        with pytest.raises(
            UsageError, match="FP16 cannot be combined with a strongly typed network"
        ):
            EngineBytesFromNetwork(parts, config)()


@pytest.mark.parametrize(
    ("version", "settings", "names"),
    [
        ("8.6.0", {}, ["EXPLICIT_BATCH"]),
        ("8.6.0", {"explicit_batch": False}, []),
        ("10.0.1", {}, []),
        ("10.16.1.11", {"strongly_typed": True}, ["STRONGLY_TYPED"]),
        ("11.4.0.106", {}, ["STRONGLY_TYPED"]),
    ],
)
def test_flags_of_networks(
    version: str, settings: dict[str, bool], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder(version)
    module = named_module(version)
    flags = dict.fromkeys(names, 0)
    for position, name in enumerate(["EXPLICIT_BATCH", "STRONGLY_TYPED"]):
        if hasattr(module.NetworkDefinitionCreationFlag, name):
            setattr(module.NetworkDefinitionCreationFlag, name, position)
            flags[name] = 1 << position
    monkeypatch.setattr(network_module, "new_builder", lambda: builder)
    monkeypatch.setattr(network_module, "capture_log", _capturing_nothing)
    with use_module(module):
        create_network(**settings)
    assert builder.flags == sum(flags[name] for name in names)


class _capturing_nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *exc_info: object) -> None: ...


def test_strong_typing_and_casts_need_a_newer_version() -> None:
    with (
        use_module(named_module("8.6.0")),
        pytest.raises(BackendError, match=r"strongly typed networks.*fp16=True"),
    ):
        create_network(strongly_typed=True)


def test_precisions_are_set_on_layers(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Layer(SimpleNamespace):
        num_outputs = 1

        def get_output(self, index: int) -> Any:
            output = getattr(self, "output", self.name)
            return SimpleNamespace(name=output, dtype=self.made, is_shape_tensor=False)

        def set_output_type(self, index: int, dtype: Any) -> None:
            self.output_type = dtype.name

    dtypes, kinds = trt.DataType, trt.LayerType
    layers = [
        Layer(name="relu", type=kinds.ACTIVATION, made=dtypes.FLOAT),
        Layer(name="ids", type=kinds.GATHER, made=dtypes.INT32),
        Layer(name="const", type=kinds.CONSTANT, made=dtypes.FLOAT),
        Layer(name="relu", type=kinds.ACTIVATION, made=dtypes.FLOAT),
        Layer(name="(Unnamed Layer* 4)", output="norm", type=kinds.SCALE, made=dtypes.FLOAT),
        Layer(name="plus", output="relu", type=kinds.ELEMENTWISE, made=dtypes.FLOAT),
    ]
    network = SimpleNamespace(num_layers=len(layers), get_layer=lambda index: layers[index])
    wanted = {"relu": "fp16", "ids": "float16", "const": "fp16", "norm": "fp16"}
    SetLayerPrecisions((object(), network), {**wanted, "rellu": "fp16"})()
    assert "'rellu' does not exist" in (said := capsys.readouterr().out)
    assert "Did you mean 'relu'" in said
    for relu in (layers[0], layers[3]):  # Networks of the API may give a name twice.
        assert (relu.precision.name, relu.output_type) == ("HALF", "HALF")
    assert layers[1].precision.name == "HALF"
    assert not hasattr(layers[1], "output_type")
    assert not hasattr(layers[2], "precision")
    # A tensor names the layer that computes it, unless another layer has this name.
    assert layers[4].precision.name == "HALF"
    assert not hasattr(layers[5], "precision")


def test_nothing_is_done_before_a_loader_is_called() -> None:
    with use_module(named_module("8.6.0")):
        assert callable(EngineBytesFromNetwork(NetworkFromOnnxPath("/path/to/model.onnx")))
