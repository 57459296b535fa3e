"""The adapter finds out what a TensorRT can do by its names, and uses none that is not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import polygraphy.adapters.tensorrt as adapter
from polygraphy.adapters.tensorrt.engine.config_settings import ATTRIBUTES, FLAGS
from polygraphy.adapters.tensorrt.library import module as module_in_use
from polygraphy.adapters.tensorrt.library.capabilities import (
    FEATURES,
    MEMBERS,
    capabilities,
    enum_value,
)
from polygraphy.adapters.tensorrt.library.module import is_rtx, tensorrt_module, trt, use_module
from polygraphy.cli.backends.trt.names import NAMES
from polygraphy.domain.errors import BackendError, MissingDependencyError
from tests.support.helpers.tensorrt_run_side import RUN_SIDE
from tests.support.tensorrt_names import VERSIONS, keywords_of, named_module, names_of

_CLASSES = {
    "builder": "Builder",
    "cache": "ITimingCache",
    "config": "IBuilderConfig",
    "engine": "ICudaEngine",
    "inspector": "EngineInspector",
    "layer": "ILayer",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
    "profile": "IOptimizationProfile",
    "runtime": "Runtime",
    "tensor": "ITensor",
}
_OURS = {
    "calibrator": {"cache"},
    "contexts": {"cache"},
    "module": {"config"},
    "inputs": {"tensor"},
}
"""Variables of the same names that hold objects of ours, by module."""

# Names that some versions lack, and the feature that is asked for before they are used.
_GUARDED = {
    "BuilderFlag.EDITABLE_TIMING_CACHE": "editable_timing_cache",
    "CalibrationAlgoType": "calibrators",
    "CalibrationAlgoType.ENTROPY_CALIBRATION_2": "calibrators",
    "DataType.BF16": "",  # looked up with a default
    "EngineStat": "",  # where engines have get_engine_stat
    "EngineStat.TOTAL_WEIGHTS_SIZE": "",
    "ExecutionContextAllocationStrategy": "allocation_strategies",
    "ExecutionContextAllocationStrategy.USER_MANAGED": "allocation_strategies",
    "IAlgorithmSelector": "algorithm_selector",
    "IBuilderConfig.clear_quantization_flag": "quantization_flags",
    "IBuilderConfig.set_quantization_flag": "quantization_flags",
    "IBuilderConfig.algorithm_selector": "algorithm_selector",
    "IBuilderConfig.int8_calibrator": "calibrators",
    "IBuilderConfig.get_calibration_profile": "calibrators",
    "IBuilderConfig.set_calibration_profile": "calibrators",
    "ComputeCapability": "compute_capability",
    "ComputeCapability.CURRENT": "compute_capability",
    "IBuilderConfig.get_compute_capability": "compute_capability",
    "IBuilderConfig.num_compute_capabilities": "compute_capability",
    "IBuilderConfig.set_compute_capability": "compute_capability",
    "IBuilderConfig.progress_monitor": "progress_monitor",
    "IAttentionInputLayer": "attention",
    "ICudaEngine.create_execution_context_without_device_memory": "",  # looked for
    "ICudaEngine.get_engine_stat": "",  # looked for
    "ICudaEngine.get_profile_shape_input": "",  # where there is nothing newer
    "ICudaEngine.get_tensor_profile_values": "",  # looked for
    "IInt8Calibrator": "calibrators",
    "IInt8EntropyCalibrator2": "calibrators",
    "ITimingCache.query": "editable_timing_cache",
    "ITimingCache.queryKeys": "editable_timing_cache",
    "ITimingCache.update": "editable_timing_cache",
    "ILayer.precision": "layer_precisions",
    "ILayer.set_output_type": "layer_precisions",
    "INetworkDefinition.get_flag": "strongly_typed",
    "INetworkDefinition.mark_debug": "debug_tensors",
    "INetworkDefinition.mark_unfused_tensors_as_debug_tensors": "marked_unfused_tensors",
    "LayerType.ATTENTION_INPUT": "attention",
    "NetworkDefinitionCreationFlag.EXPLICIT_BATCH": "explicit_batch",
    "NetworkDefinitionCreationFlag.STRONGLY_TYPED": "strongly_typed",
    "OnnxParser.clear_flag": "parser_flags",
    "OnnxParser.get_subgraph_nodes": "parser_subgraph_query",
    "OnnxParser.is_subgraph_supported": "parser_subgraph_query",
    "OnnxParser.num_subgraphs": "parser_subgraph_query",
    "OnnxParser.set_builder_config": "parser_builder_config",
    "OnnxParser.set_flag": "parser_flags",
    "OnnxParser.supports_model": "",  # where there is no supports_model_v2
    "OnnxParser.supports_model_v2": "parser_subgraph_query",
    "OnnxParserFlag": "parser_flags",
    "OnnxParserFlag.NATIVE_INSTANCENORM": "parser_flags",
    "QuantizationFlag": "quantization_flags",
    "TimingCacheKey": "editable_timing_cache",
    "TimingCacheKey.parse": "editable_timing_cache",
    "TimingCacheValue": "editable_timing_cache",
}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of the adapter; those of the run side have tests of their own."""
    for path in sorted(Path(str(adapter.__file__)).parent.rglob("*.py")):
        if path.stem not in RUN_SIDE:
            yield path.stem, ast.parse(path.read_text(encoding="utf-8"))


@cache
def _used_names() -> set[str]:
    """Return every ``trt.X``, ``trt.X.Y`` and ``network.member`` in the adapter's source."""
    found: set[str] = set()
    for name, tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute):
                continue
            dotted = ast.unparse(node)
            if match := re.fullmatch(r"trt\.(\w+(?:\.\w+)?)", dotted):
                found.add(match[1])
            elif match := re.fullmatch(r"(\w+)\.(\w+)", dotted):
                owner = _CLASSES.get(match[1])
                if owner is not None and match[1] not in _OURS.get(name, ()):
                    found.add(f"{owner}.{match[2]}")
    # Python's own, and objects of ours that go by the same variable names.
    return {name for name in found if "__" not in name}


@cache
def _used_keywords() -> set[str]:
    """Return every ``member(keyword)`` of calls of what TensorRT's classes have."""
    folder = Path(str(adapter.__file__)).parent
    members = {name.partition(".")[2] for version in VERSIONS for name in names_of(version)} - {""}
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = ast.unparse(node.func.value)
            if node.func.attr in members and (owner == "trt" or owner.split(".")[-1] in _CLASSES):
                found |= {f"{node.func.attr}({each.arg})" for each in node.keywords}
    return found


def test_there_are_names_to_look_at() -> None:
    used = _used_names()
    assert {"Builder.create_network", "DataType.BOOL", "INetworkDefinition.mark_output"} <= used
    assert len(used) > 60


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_exists_or_is_guarded(version: str) -> None:
    known = names_of(version)
    with use_module(named_module(version)):
        features = capabilities().features
    for name in sorted(_used_names() - known):
        assert name in _GUARDED, f"{name} does not exist in TensorRT {version}"
        assert _GUARDED[name] not in features, f"{name} is missing in {version}, and not guarded"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_keyword_is_one_of_the_recorded_signatures(version: str) -> None:
    known = {keyword.partition(".")[2] for keyword in keywords_of(version)}
    assert _used_keywords()
    assert _used_keywords() <= known


@pytest.mark.parametrize("version", VERSIONS)
def test_settings_that_are_flags_or_attributes_exist_or_are_guarded(version: str) -> None:
    known = names_of(version)
    with use_module(named_module(version)):
        features = capabilities().features
    for flag, feature in FLAGS.values():
        assert f"BuilderFlag.{flag}" in known or (feature and feature not in features), flag
    for name, (enum, feature) in ATTRIBUTES.items():
        exists = f"IBuilderConfig.{name}" in known and (not enum or enum in known)
        assert exists or (feature and feature not in features), name


@pytest.mark.parametrize("enum", sorted(NAMES))
def test_the_command_line_knows_the_members_that_were_recorded(enum: str) -> None:
    recorded = set().union(*map(names_of, VERSIONS))
    members = {name.partition(".")[2].lower() for name in recorded if name.startswith(f"{enum}.")}
    assert set(NAMES[enum]) == members


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_every_feature_tells_versions_apart_or_is_everywhere(feature: str) -> None:
    having = [version for version in VERSIONS if _has(version, feature)]
    assert having, f"No recorded TensorRT shows {FEATURES[feature].signs}"


def _has(version: str, feature: str) -> bool:
    with use_module(named_module(version)):
        return capabilities().has(feature)


@pytest.mark.parametrize(
    ("feature", "versions"),
    [
        ("weak_typing", ["8.6.0", "10.0.1", "10.16.1.11"]),
        ("strongly_typed", ["10.0.1", "10.16.1.11", "11.4.0.106", "rtx-1.7.1.116"]),
        ("implicit_batch", ["8.6.0"]),
        ("algorithm_selector", ["8.6.0", "10.0.1", "10.16.1.11"]),
        ("stream_reader_v2", ["10.16.1.11", "11.4.0.106", "rtx-1.7.1.116"]),
        ("dla_workspace_allocation_strategy", ["11.4.0.106", "rtx-1.7.1.116"]),
        ("compute_capability", ["rtx-1.7.1.116"]),
        ("debug_tensors", ["10.0.1", "10.16.1.11", "11.4.0.106", "rtx-1.7.1.116"]),
    ],
)
def test_features_of_versions(feature: str, versions: list[str]) -> None:
    assert [version for version in VERSIONS if _has(version, feature)] == versions


def test_a_missing_feature_says_who_has_it_and_what_to_do() -> None:
    with use_module(named_module("11.4.0.106")), pytest.raises(BackendError) as caught:
        capabilities().require("calibrators", "calibrator=...")
    message = str(caught.value)
    assert message.startswith("calibrator=... requires INT8 calibrators, which TensorRT 11.4.0.106")
    assert "8.6 to 10.x" in message
    assert "Q/DQ" in message


def test_a_misspelt_feature_is_not_a_missing_one() -> None:
    with use_module(named_module("8.6.0")), pytest.raises(KeyError):
        capabilities().has("calibrator")


def test_members_of_enums_are_found_by_name_in_any_case() -> None:
    with use_module(named_module("8.6.0")):
        assert enum_value("BuilderFlag", "fp16", "fp16=True").name == "FP16"
        with pytest.raises(
            BackendError, match=r"bf16=True requires BuilderFlag\.BF16.*Available: .*FP16"
        ):
            enum_value("BuilderFlag", "bf16", "bf16=True")
        with pytest.raises(BackendError, match="It has no RuntimePlatform"):
            enum_value("RuntimePlatform", "SAME_AS_BUILD", "runtime_platform")


def test_the_stand_in_forwards_to_the_module_in_use() -> None:
    outer, inner = named_module("8.6.0"), named_module("rtx-1.7.1.116")
    with use_module(outer):
        assert trt.__version__ == "8.6.0"
        assert not is_rtx()
        with use_module(inner):
            assert tensorrt_module() is inner
            assert is_rtx()
        assert tensorrt_module() is outer
    assert not hasattr(trt, "__wrapped__")


def test_without_tensorrt_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_in_use.config, "USE_TENSORRT_RTX", False)
    for name in ("tensorrt", "tensorrt_rtx"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with use_module(None), pytest.raises(MissingDependencyError, match="pip install"):
        _ = trt.Logger


def test_who_has_members_of_enums_is_as_recorded() -> None:
    said = {
        "TensorRT 8.6 supports it": "10000",
        "TensorRT 8.6 to 10.x support it": "11100",
        "TensorRT 10.0 and later, and TensorRT-RTX, support it": "01111",
        "later TensorRT 10.x, 11.x and TensorRT-RTX support it": "00111",
    }
    for name, where in MEMBERS.items():
        found = "".join(str(int(name in names_of(version))) for version in VERSIONS)
        assert said[where] == found, name
