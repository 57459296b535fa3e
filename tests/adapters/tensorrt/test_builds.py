"""Configurations, profiles, precisions, plans: built for real with TensorRT-RTX."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy import func
from polygraphy.adapters.tensorrt.describe import build_record
from polygraphy.adapters.tensorrt.describe.build_record import record_of
from polygraphy.adapters.tensorrt.library import module as gpu
from polygraphy.adapters.tensorrt.library import module as logger
from polygraphy.adapters.tensorrt.plan import engine as deserialize
from polygraphy.backend.tensorrt_rtx import CreateConfigRTX, create_config_rtx
from polygraphy.backend.trt import (
    BytesFromEngine,
    CreateConfig,
    EngineBytesFromNetwork,
    EngineFromBytes,
    EngineFromNetwork,
    EngineFromPath,
    ModifyNetworkOutputs,
    NetworkFromOnnxBytes,
    NetworkFromOnnxPath,
    PostprocessConfig,
    PostprocessNetwork,
    Profile,
    SetLayerPrecisions,
    buffer_from_engine,
    create_config,
    create_network,
    engine_bytes_from_network,
    modify_network_outputs,
    network_from_onnx_path,
    save_engine,
)
from polygraphy.binding import bind
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    MissingDependencyError,
    UnknownNameError,
    UsageError,
)
from polygraphy.ports.machine import Device
from tests.support import models
from tests.support.helpers.tensorrt_builds import build_plan, profile
from tests.support.rtx import dtypes, output_names

pytestmark = pytest.mark.usefixtures("rtx")


# Tests of optimization profiles follow.


def test_ctrl_c_while_tensorrt_logs_ends_the_build(
    mlp_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(severity: str, message: str) -> None:
        raise KeyboardInterrupt

    network = NetworkFromOnnxPath(mlp_path)()
    monkeypatch.setattr(logger, "_log_message", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_plan(network)


def test_a_profile_reaches_tensorrt(mlp_path: str) -> None:
    builder, network, _parser = network_from_onnx_path(mlp_path)
    native = Profile().add("*", (1, 8), (2, 8), (4, 8)).to_trt(builder, network)
    assert [tuple(shape) for shape in native.get_shape("x")] == [(1, 8), (2, 8), (4, 8)]


def test_defaults_are_one_with_a_warning(mlp_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    network = network_from_onnx_path(mlp_path)[1]
    filled = Profile().fill_defaults(network, default_shape_value=3)
    assert filled == {"x": profile()["x"].__class__((3, 8), (3, 8), (3, 8))}
    shown = capsys.readouterr().out
    assert "Input tensor: x (dtype=DataType.FLOAT, shape=(-1, 8)) | No shapes provided" in shown


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (Profile().add("z", (1,), (1,), (1,)), UnknownNameError, "Network input 'z'"),
        (
            Profile().add("x", (1, 7), (1, 7), (1, 7)),
            UsageError,
            "its shape in the network is .-1, 8.",
        ),
        (Profile().add("x", (1,), (1,), (1,)), UsageError, "its shape in the network is .-1, 8."),
    ],
)
def test_profiles_that_do_not_fit(
    given: Profile, error: type[Exception], text: str, mlp_path: str
) -> None:
    with pytest.raises(error, match=text):
        (
            build_plan(NetworkFromOnnxPath(mlp_path))
            if given is None
            else EngineBytesFromNetwork(
                NetworkFromOnnxPath(mlp_path), CreateConfig(profiles=[given])
            )()
        )


def test_a_configuration_does_not_change_the_profiles_that_it_is_given(mlp_path: str) -> None:
    empty = Profile()
    builder, network, _parser = network_from_onnx_path(mlp_path)
    config = create_config(builder, network, profiles=[profile(), empty])
    assert config.num_optimization_profiles == 2
    assert empty == {}


# Tests of builder configurations follow.


@pytest.mark.parametrize(
    ("setting", "flag"),
    [
        ("tf32", "TF32"),
        ("sparse_weights", "SPARSE_WEIGHTS"),
        ("restricted", "SAFETY_SCOPE"),
        ("refittable", "REFIT"),
        ("strip_plan", "STRIP_PLAN"),
        ("direct_io", "DIRECT_IO"),
        ("version_compatible", "VERSION_COMPATIBLE"),
        ("error_on_timing_cache_miss", "ERROR_ON_TIMING_CACHE_MISS"),
        ("disable_compilation_cache", "DISABLE_COMPILATION_CACHE"),
        ("weight_streaming", "WEIGHT_STREAMING"),
        ("allow_gpu_fallback", "GPU_FALLBACK"),
    ],
)
def test_flags(rtx: Any, setting: str, flag: str) -> None:
    builder, network = create_network()
    member = getattr(rtx.BuilderFlag, flag)
    assert create_config(builder, network, **{setting: True}).get_flag(member)
    assert not create_config(builder, network).get_flag(member)
    assert not create_config(builder, network, **{setting: False}).get_flag(member)


def test_lean_runtimes_are_left_out_of_version_compatible_plans_only(rtx: Any) -> None:
    builder, network = create_network()
    config = create_config(builder, network, version_compatible=True, exclude_lean_runtime=True)
    assert config.get_flag(rtx.BuilderFlag.EXCLUDE_LEAN_RUNTIME)
    with pytest.raises(UsageError, match="version_compatible"):
        CreateConfig(exclude_lean_runtime=True)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("builder_optimization_level", 5, 5),
        ("max_aux_streams", 3, 3),
        ("engine_capability", "standard", "STANDARD"),
        ("profiling_verbosity", "none", "NONE"),
        ("tiling_optimization_level", "full", "FULL"),
        ("runtime_platform", "SAME_AS_BUILD", "SAME_AS_BUILD"),
    ],
)
def test_attributes(setting: str, value: Any, expected: Any) -> None:
    builder, network = create_network()
    config = create_config(builder, network, **{setting: value})
    found = getattr(config, setting)
    assert getattr(found, "name", found) == expected


def test_what_tensorrt_only_logs_not_to_take_is_an_error() -> None:
    builder, network = create_network()
    with pytest.raises(
        BackendError, match=r"could not take runtime_platform=windows_amd64 \(--run"
    ):
        create_config(builder, network, runtime_platform="windows_amd64")


def test_a_pool_that_there_is_no_use_for_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    builder, network = create_network()
    create_config(builder, network, memory_pool_limits={"dla_local_dram": 1 << 20})
    said = "".join(capsys.readouterr())
    assert "[W] memory_pool_limits=dla_local_dram:1048576 (--pool-limit) has no effect" in said
    assert "[E]" not in said


def test_layers_are_described_in_detail_by_default(rtx: Any) -> None:
    builder, network = create_network()
    config = create_config(builder, network)
    assert config.profiling_verbosity == rtx.ProfilingVerbosity.DETAILED


def test_pools_sources_and_preview_features(rtx: Any) -> None:
    builder, network = create_network()
    pool, source = rtx.MemoryPoolType.WORKSPACE, rtx.TacticSource.JIT_CONVOLUTIONS
    feature = rtx.PreviewFeature.RUNTIME_ACTIVATION_RESIZE_10_10
    config = create_config(
        builder,
        network,
        memory_pool_limits={"workspace": 1 << 20},
        tactic_sources=["jit_convolutions"],
        preview_features=[feature],
    )
    assert config.get_memory_pool_limit(pool) == 1 << 20
    assert config.get_tactic_sources() == 1 << int(source)
    assert [
        name
        for name, member in rtx.PreviewFeature.__members__.items()
        if config.get_preview_feature(member)
    ] == [feature.name]
    assert create_config(builder, network, tactic_sources=[]).get_tactic_sources() == 0


def test_a_progress_monitor_is_reported(rtx: Any, mlp_path: str) -> None:
    class Monitor(rtx.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            rtx.IProgressMonitor.__init__(self)
            self.phases: list[str] = []

        def phase_start(self, name: str, parent: str | None, steps: int) -> None:
            self.phases.append(name)

        def step_complete(self, name: str, step: int) -> bool:
            return True

        def phase_finish(self, name: str) -> None:
            pass

    monitor = Monitor()
    build_plan(NetworkFromOnnxPath(mlp_path), progress_monitor=monitor)
    assert monitor.phases


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"tactic_sources": ["cudnn"]}, "8.6 to 10.x support it.*Available: .*JIT_CONVOLUTIONS"),
        ({"engine_capability": "nonsense"}, "Available: .*STANDARD"),
        ({"quantization_flags": ["calibrate_before_fusion"]}, "TensorRT 8.6 to 10.x"),
        ({"algorithm_selector": object()}, "algorithm selectors"),
        ({"use_dla": True}, "no DLA.*allow_gpu_fallback"),
    ],
)
def test_what_this_tensorrt_lacks_is_said(settings: dict[str, Any], text: str) -> None:
    builder, network = create_network()
    with pytest.raises(BackendError, match=text):
        create_config(builder, network, **settings)


def test_settings_that_do_not_exist() -> None:
    with pytest.raises(TypeError, match=r"CreateConfig.*'workspace'"):
        CreateConfig(workspace=1)
    with pytest.raises(UsageError, match="obey, prefer, none"):
        CreateConfig(precision_constraints="strict")


def test_a_function_of_the_user_edits_the_configuration(rtx: Any, mlp_path: str) -> None:
    seen: list[Any] = []

    def edit(builder: Any, network: Any, config: Any) -> None:
        config.set_flag(rtx.BuilderFlag.TF32)
        seen.append(network)

    loader = PostprocessConfig(CreateConfig(), edit)
    builder, network, _parser = network_from_onnx_path(mlp_path)
    assert loader(builder, network).get_flag(rtx.BuilderFlag.TF32)
    loader(builder, None)
    assert seen == [network]


def test_compute_capabilities_of_rtx(rtx: Any, mlp_path: str) -> None:
    builder, network, _parser = network_from_onnx_path(mlp_path)
    config = create_config_rtx(
        builder, network, compute_capabilities=[(8, 9), (12, 0)], profiles=[profile()]
    )
    assert config.num_compute_capabilities == 2
    assert config.get_compute_capability(1) == rtx.ComputeCapability.SM120
    assert engine_bytes_from_network((builder, network), config).nbytes > 0
    current = create_config_rtx(builder, network, use_gpu=True)
    assert current.get_compute_capability(0) == rtx.ComputeCapability.CURRENT
    with pytest.raises(UsageError, match="cannot be combined"):
        CreateConfigRTX(use_gpu=True, compute_capabilities=[(8, 9)])
    with pytest.raises(BackendError, match=r"Available: .*SM89"):
        create_config_rtx(builder, network, compute_capabilities=[(1, 0)])


# Tests of precisions follow.


@pytest.mark.parametrize(("setting", "trt_name"), [("fp16", "HALF"), ("bf16", "BF16")])
def test_a_lazy_chain_is_cast(mlp_path: str, setting: str, trt_name: str) -> None:
    seen: list[dict[str, str]] = []

    @func.extend(ModifyNetworkOutputs(NetworkFromOnnxPath(mlp_path), outputs=["h_relu", "y"]))
    def load(builder: Any, network: Any, parser: Any) -> None:
        seen.append(dtypes(network))

    plan = build_plan(load, **{setting: True})
    assert len(seen) == 1  # The configuration is known before: the model is parsed only once.
    assert seen[0]["x"] == seen[0]["y"] == "FLOAT"
    assert seen[0]["h"] == trt_name
    record = record_of(plan)
    assert record is not None
    assert record.precision == {"fp16": "float16", "bf16": "bfloat16"}[setting]


def test_bytes_are_cast_too() -> None:
    plan = build_plan(NetworkFromOnnxBytes(models.mlp().SerializeToString()), fp16=True)
    record = record_of(plan)
    assert record is not None
    assert record.precision == "float16"


def test_a_configuration_that_is_known_late_has_the_chain_called_again(mlp_path: str) -> None:
    seen: list[str] = []

    @func.extend(NetworkFromOnnxPath(mlp_path))
    def load(builder: Any, network: Any, parser: Any) -> None:
        seen.append(dtypes(network)["h"])

    @func.extend(CreateConfig(fp16=True, profiles=[profile()]))
    def load_config(config: Any) -> None:
        pass

    EngineBytesFromNetwork(load, load_config)()
    assert seen == ["FLOAT", "HALF"]


def test_a_parsed_network_is_parsed_again_and_edited_alike(mlp_path: str) -> None:
    names: list[list[str]] = []

    def look(network: Any) -> None:
        names.append(output_names(network))

    parts = network_from_onnx_path(mlp_path)
    parts = modify_network_outputs(parts, outputs=["h_relu", "y"])
    parts = PostprocessNetwork(parts, look)()
    config = create_config(parts[0], parts[1], fp16=True, profiles=[profile()])
    for _build in range(2):  # The network that was given stays as it is, and can be built again.
        record = record_of(engine_bytes_from_network(parts, config))
        assert record is not None
        assert record.precision == "float16"
    assert names == [["h_relu", "y"]] * 3
    assert dtypes(parts[1])["h"] == "FLOAT"


def test_a_network_that_was_edited_by_hand_is_never_built_in_float32(mlp_path: str) -> None:
    parts = network_from_onnx_path(mlp_path)
    parts[1].unmark_output(parts[1].get_output(0))
    extra = parts[1].add_identity(parts[1].get_layer(5).get_output(0)).get_output(0)
    parts[1].mark_output(extra)
    with pytest.raises(
        BackendError, match=r"edited after parsing.*NetworkFromOnnxPath\(path, cast='bf16'"
    ):
        build_plan(parts, bf16=True)
    # An edit by a loader afterwards does not make it ours again.
    with pytest.raises(BackendError, match="edited after parsing"):
        build_plan(modify_network_outputs(parts), bf16=True)


def test_a_network_that_was_not_parsed_cannot_be_cast(rtx: Any) -> None:
    @func.extend(create_network_loader())
    def load(builder: Any, network: Any) -> None:
        tensor = network.add_input("x", rtx.float32, (1, 8))
        network.mark_output(network.add_identity(tensor).get_output(0))

    with pytest.raises(BackendError, match="not parsed from an ONNX model"):
        EngineBytesFromNetwork(load, CreateConfig(fp16=True))()


def create_network_loader() -> Any:
    from polygraphy.backend.trt import CreateNetwork

    return CreateNetwork()


def test_a_cast_where_the_model_is_parsed(mlp_path: str) -> None:
    parts = network_from_onnx_path(mlp_path, cast="bf16")
    assert dtypes(parts[1])["h"] == "BF16"
    assert build_plan(parts, bf16=True).nbytes > 0
    with pytest.raises(BackendError, match="already cast to bfloat16"):
        build_plan(parts, fp16=True)
    with pytest.raises(UsageError, match="bf16, fp16"):
        NetworkFromOnnxPath(mlp_path, cast="fp64")


def test_layers_may_keep_their_precision_or_be_the_only_ones_cast(mlp_path: str) -> None:
    seen: list[dict[str, str]] = []

    def load(precisions: dict[str, Any]) -> Any:
        @func.extend(SetLayerPrecisions(NetworkFromOnnxPath(mlp_path), precisions))
        def extended(builder: Any, network: Any, parser: Any) -> None:
            seen.append(dtypes(network))

        return extended

    build_plan(load({"hidden": "float32"}), fp16=True, precision_constraints="obey")
    assert (seen[-1]["h"], seen[-1]["h_relu"]) == ("FLOAT", "HALF")
    build_plan(load({"hidden": "fp16"}))
    assert (seen[-1]["h"], seen[-1]["h_relu"]) == ("HALF", "FLOAT")
    build_plan(load({"hidden": "float32"}))
    assert set(seen[-1].values()) == {"FLOAT"}
    with pytest.raises(BackendError, match="cannot use int32"):
        build_plan(load({"hidden": "int32"}))
    with pytest.raises(BackendError, match="cannot use bfloat16"):
        build_plan(load({"hidden": "bf16"}), fp16=True)


def test_int8_quantizes_the_model(mlp_path: str) -> None:
    kinds: list[str] = []

    @func.extend(NetworkFromOnnxPath(mlp_path))
    def load(builder: Any, network: Any, parser: Any) -> None:
        kinds.extend(network.get_layer(index).type.name for index in range(network.num_layers))

    data = [{"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)}]
    record = record_of(build_plan(load, int8=True, calibrator=data))
    assert {"QUANTIZE", "DEQUANTIZE"} <= set(kinds)
    assert record is not None
    assert record.precision == "int8"
    with pytest.raises(UsageError, match="requires data"):
        build_plan(NetworkFromOnnxPath(mlp_path), int8=True)


# Tests on several GPUs follow.


def test_a_build_is_made_on_the_gpu_that_was_chosen(mlp_path: str) -> None:
    used: list[Any] = []

    class Gpus:
        current = 0

        @contextmanager
        def use(self, index: int | None) -> Iterator[None]:
            before, self.current = self.current, int(index or 0)
            yield
            self.current = before

    gpus: Any = Gpus()

    def load() -> Any:
        used.append(gpus.current)
        return network_from_onnx_path(mlp_path)

    def configure(builder: Any, network: Any) -> Any:
        used.append(gpus.current)
        return CreateConfig(profiles=[profile()])(builder, network)

    with bind(Device, gpus):
        assert EngineBytesFromNetwork(load, configure, device=1)().nbytes > 0
    assert (used, gpus.current) == ([1, 1], 0)
    with pytest.raises(UsageError, match="Pass a loader of the network"):
        EngineBytesFromNetwork(network_from_onnx_path(mlp_path), device=1)


# Tests of plans and their files follow.


def test_a_build_that_fails_says_why(rtx: Any, mlp_path: str) -> None:
    with pytest.raises(BackendError, match=r"could not build the engine: .*\w") as caught:
        build_plan(NetworkFromOnnxPath(mlp_path), version_compatible=True)
    assert "it gave no reason" not in str(caught.value)
    assert "--exclude-lean-runtime" in str(caught.value)
    build_plan(NetworkFromOnnxPath(mlp_path), version_compatible=True, exclude_lean_runtime=True)


@pytest.mark.parametrize(
    ("setting", "flag"), [("refittable", "--refittable"), ("strip_plan", "--strip-plan")]
)
def test_what_takes_a_gpu_to_build_is_reported(
    setting: str, flag: str, mlp_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "has_gpu", lambda: False)
    with pytest.raises(BackendError, match=f"TensorRT-RTX and .*{flag}.* requires a GPU"):
        build_plan(NetworkFromOnnxPath(mlp_path), **{setting: True})
    with pytest.raises(BackendError, match="for the GPU of this machine requires a GPU"):
        EngineBytesFromNetwork(NetworkFromOnnxPath(mlp_path), CreateConfigRTX(use_gpu=True))()


@pytest.fixture
def engine(rtx: Any, mlp_path: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what stands for an engine: a plan that serializes into itself."""
    plan = build_plan(NetworkFromOnnxPath(mlp_path))

    class Engine:
        def serialize(self) -> Any:
            return plan

    made = Engine()
    record = record_of(plan)
    assert record is not None
    build_record.remember_record(made, record)
    return made


def test_engines_are_saved_whole_with_what_they_were_built_with(
    engine: Any, tmp_path: Path
) -> None:
    path = tmp_path / "engines" / "mlp.engine"
    assert save_engine(engine, str(path)) is engine
    assert path.read_bytes() == BytesFromEngine(engine)() == bytes(buffer_from_engine(engine))
    record = json.loads((tmp_path / "engines" / "mlp.engine.build.json").read_text())
    assert record["library"] == "TensorRT-RTX"
    assert record["model"]["path"] == str(tmp_path / "mlp.onnx")
    assert len(record["model"]["sha256"]) == 64
    assert record["plan_size"] == path.stat().st_size
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "mlp.engine",
        "mlp.engine.build.json",
    ]


def test_an_engine_that_cannot_be_serialized_harms_no_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.engine"
    path.write_bytes(b"before")
    with pytest.raises(BackendError, match="could not serialize"):
        save_engine(SimpleNamespace(serialize=lambda: None), str(path))
    assert path.read_bytes() == b"before"


def test_nothing_is_built_that_could_not_be_saved(tmp_path: Path) -> None:
    def build() -> bytes:
        raise AssertionError("it was built")

    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file" / "model.engine"):
        with pytest.raises(FileError, match=tmp_path.name):
            save_engine(build, str(place))
    with pytest.raises(AssertionError):
        save_engine(build, str(tmp_path / "new" / "model.engine"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_plan_in_memory_is_saved_without_a_record(engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "mlp.engine"
    save_engine(engine, str(path))
    save_engine(b"another plan", str(path))
    assert path.read_bytes() == b"another plan"
    assert not build_record.record_path(path).exists()  # It was that of the first.


def test_loading_warns_when_the_model_changed(
    engine: Any, mlp_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mlp.engine"
    save_engine(engine, str(path))
    build_record.check_record(path)
    Path(mlp_path).touch()
    build_record.check_record(path)
    assert "changed" not in capsys.readouterr().out
    Path(mlp_path).write_bytes(Path(mlp_path).read_bytes() + b"\x00")
    build_record.check_record(path)
    assert "changed after the build" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("version", "1.0", "it was built with TensorRT-RTX 1.0"),
        ("gpu", "NVIDIA A100 (8.0)", "it was built for NVIDIA A100 (8.0), but this is NVIDIA H200"),
    ],
)
def test_loading_warns_of_another_version_or_gpu(
    key: str,
    value: str,
    text: str,
    engine: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "mlp.engine"
    save_engine(engine, str(path))
    record = build_record.record_path(path)
    record.write_text(json.dumps({**json.loads(record.read_text()), key: value}))
    monkeypatch.setattr(build_record, "gpu_name", lambda: "NVIDIA H200 (9.0)")
    build_record.check_record(path)
    assert text in capsys.readouterr().out
    path.write_bytes(b"another plan")  # to which the record does not belong
    build_record.check_record(path)
    assert text not in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"library": 1, "version": "x", "model": 3}'])
def test_records_that_are_damaged_are_ignored(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.engine"
    path.write_bytes(b"plan")
    build_record.record_path(path).write_text(content)
    build_record.check_record(path)


def test_without_a_gpu_engines_are_refused_before_tensorrt_is_asked(
    mlp_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "has_gpu", lambda: False)
    path = tmp_path / "x.engine"
    path.write_bytes(b"plan")
    for load in (
        EngineFromBytes(b"plan"),
        EngineFromPath(str(path)),
        EngineFromNetwork(NetworkFromOnnxPath(mlp_path), CreateConfig(profiles=[profile()])),
    ):
        with pytest.raises(BackendError, match="requires a GPU"):
            load()
    with pytest.raises(FileError, match="does not exist"):
        EngineFromPath(str(tmp_path / "missing.engine"))()


def test_without_tensorrt_nobody_is_sent_for_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise MissingDependencyError("tensorrt is required but not installed.")

    monkeypatch.setattr(gpu, "has_gpu", lambda: False)
    monkeypatch.setattr(deserialize, "tensorrt_module", missing)
    path = tmp_path / "x.engine"
    path.write_bytes(b"plan")
    with pytest.raises(MissingDependencyError):
        EngineFromPath(str(path))()


def test_a_refused_plan_says_why(tmp_path: Path) -> None:
    class Runtime:
        engine_host_code_allowed = False

        def deserialize_cuda_engine(self, plan: Any) -> Any:
            seen.append((bytes(plan), self.engine_host_code_allowed))
            return None

    seen: list[Any] = []
    path = tmp_path / "x.engine"
    path.write_bytes(b"plan")
    with pytest.raises(
        BackendError, match=r"could not load the engine.*only works with the TensorRT version"
    ):
        EngineFromPath(str(path), runtime=Runtime())()
    assert seen == [(b"plan", True)]


def test_importing_the_published_module_imports_no_tensorrt() -> None:
    code = (
        "import sys, polygraphy.backend.trt, polygraphy.backend.tensorrt_rtx\n"
        "print([m for m in ('tensorrt', 'tensorrt_rtx', 'onnx', 'cuda') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lazy_and_immediate_calls_may_be_mixed(mlp_path: str) -> None:
    lazy = EngineBytesFromNetwork(NetworkFromOnnxPath(mlp_path))
    assert callable(lazy)
    plan = EngineBytesFromNetwork(network_from_onnx_path(mlp_path))()
    assert not callable(plan)
    with pytest.raises(TypeError):
        plan()


class Sink:
    """Something with `write`, of no known class."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, content: Any) -> None:
        self.content += bytes(content)

    def flush(self) -> None: ...


def test_an_engine_is_written_to_whatever_can_be_written_to(tmp_path: Path) -> None:
    sink = Sink()
    engine = SimpleNamespace(serialize=lambda: b"plan")
    assert save_engine(engine, sink) is engine
    assert sink.content == b"plan" and list(tmp_path.iterdir()) == []


def test_where_timing_caches_are_is_told() -> None:
    assert CreateConfig(load_timing_cache="a").timing_cache_path == "a"
    assert CreateConfig().timing_cache_path is None
    assert EngineFromNetwork(lambda: None, save_timing_cache="b").timing_cache_path == "b"
