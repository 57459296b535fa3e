"""What people's scripts import is exactly this: sorted, documented, and cheap to import."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

PUBLISHED: dict[str, list[str]] = {
    "polygraphy.backend.base": ["BaseLoader", "BaseRunner"],
    "polygraphy.backend.common": [
        "BytesFromPath",
        "InvokeFromScript",
        "SaveBytes",
        "bytes_from_path",
        "invoke_from_script",
        "save_bytes",
    ],
    "polygraphy.backend.onnx": [
        "BytesFromOnnx",
        "InferShapes",
        "ModifyOutputs",
        "OnnxFromBytes",
        "OnnxFromPath",
        "OnnxReferenceRunner",
        "SaveOnnx",
        "bytes_from_onnx",
        "infer_shapes",
        "modify_outputs",
        "onnx_from_bytes",
        "onnx_from_path",
        "save_onnx",
    ],
    "polygraphy.backend.onnxrt": ["OnnxrtRunner", "SessionFromOnnx", "session_from_onnx"],
    "polygraphy.check": ["check_accuracy"],
    "polygraphy.common": ["BoundedShape", "MetadataTuple", "TensorMetadata"],
    "polygraphy.comparator": [
        "AccuracyResult",
        "AccuracyResults",
        "BaseCompareFunc",
        "BasePostprocessFunc",
        "Comparator",
        "CompareFunc",
        "CompareResult",
        "CosineSimilarityCompareFunc",
        "CosineSimilarityResult",
        "CosineSimilarityThreshold",
        "DataLoader",
        "IndicesCompareFunc",
        "IndicesResult",
        "IterationResult",
        "L2CompareFunc",
        "L2Result",
        "L2Threshold",
        "LpipsThreshold",
        "NormalizedL2CompareFunc",
        "NormalizedL2Result",
        "NormalizedL2Threshold",
        "OutputCompareResult",
        "PerceptualMetricsCompareFunc",
        "PerceptualMetricsResult",
        "PostprocessFunc",
        "PsnrCompareFunc",
        "PsnrResult",
        "PsnrThreshold",
        "RunResults",
        "SimpleCompareFunc",
        "SimpleThreshold",
        "SnrCompareFunc",
        "SnrResult",
        "SnrThreshold",
        "SqnrCompareFunc",
        "SqnrResult",
        "SqnrThreshold",
        "StreamingDataLoader",
        "Tolerance",
        "TopKPostprocessFunc",
    ],
    "polygraphy.config": [
        "ARRAY_SWAP_THRESHOLD_MB",
        "ASK_BEFORE_INSTALL",
        "AUTOINSTALL_DEPS",
        "EXIT_CODES",
        "INSTALL_CMD",
        "INTERNAL_CORRECTNESS_CHECKS",
        "USE_TENSORRT_RTX",
    ],
    "polygraphy.constants": [
        "DEFAULT_SEED",
        "DEFAULT_SHAPE_VALUE",
        "LEGACY_KEY_PREFIX",
        "LEGACY_TYPE_MARKER",
        "MARK_ALL",
        "TAB",
        "TYPE_MARKER",
    ],
    "polygraphy.data": ["concat", "convert", "merge"],
    "polygraphy.datatype": ["DataType", "DataTypeEntry"],
    "polygraphy.doctor": ["doctor"],
    "polygraphy.exception": [
        "BackendError",
        "CheckFailedError",
        "DataTypeConversionException",
        "FileError",
        "InconclusiveError",
        "InputError",
        "MissingDependencyError",
        "ModelError",
        "PolygraphyException",
        "PolygraphyInternalException",
        "UnknownNameError",
        "UsageError",
    ],
    "polygraphy.func": ["constantmethod", "extend"],
    "polygraphy.inspect": ["compare_saved", "inspect_data"],
    "polygraphy.json": [
        "Decoder",
        "Encoder",
        "add_json_methods",
        "from_json",
        "load_json",
        "save_json",
        "to_json",
    ],
    "polygraphy.logger": [
        "G_LOGGER",
        "SEVERITIES",
        "LogMode",
        "Logger",
        "SeverityTable",
        "was_logged",
    ],
    "polygraphy.mod": [
        "LATEST_VERSION",
        "LazyModule",
        "Version",
        "autoinstall",
        "deprecate",
        "export",
        "export_deprecated_alias",
        "has_mod",
        "import_from_script",
        "lazy_import",
        "version",
        "warn_deprecated",
    ],
}
FOREIGN = ["black", "google.protobuf", "jinja2", "onnx", "onnxruntime", "rich", "tensorrt", "torch"]

every_module = pytest.mark.parametrize("name", PUBLISHED)


def by_kind_and_name(name: str) -> tuple[int, str]:
    """Order constants before classes before functions, as linters do."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def public_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions and properties that a class of ours shows, inherited ones too."""
    for name, member in inspect.getmembers(owner):
        if name.startswith("_"):
            continue
        function = member.fget if isinstance(member, property) else member
        module = getattr(inspect.unwrap(function), "__module__", None) if callable(function) else ""
        if str(module).startswith("polygraphy") and not isinstance(member, type):
            yield name, member


def symbols() -> list[tuple[str, str]]:
    return [(module, symbol) for module, names in PUBLISHED.items() for symbol in names]


@every_module
def test_the_public_names_are_these(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLISHED[name])
    assert len(set(module.__all__)) == len(module.__all__)
    for symbol in PUBLISHED[name]:
        assert hasattr(module, symbol)


@every_module
def test_the_public_names_are_sorted(name: str) -> None:
    names = importlib.import_module(name).__all__
    assert names == sorted(names, key=by_kind_and_name)


@every_module
def test_modules_are_documented(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize(("module", "symbol"), symbols())
def test_what_is_public_is_documented(module: str, symbol: str) -> None:
    target = getattr(importlib.import_module(module), symbol)
    if not isinstance(target, type) and not inspect.isfunction(target):
        return
    assert (target.__doc__ or "").strip()
    if isinstance(target, type):
        missing = [name for name, member in public_members(target) if not inspect.getdoc(member)]
        assert missing == []


def test_there_are_members_to_look_at() -> None:
    from polygraphy.comparator import OutputCompareResult, RunResults

    assert {"concat", "split", "save", "keys"} <= {name for name, _ in public_members(RunResults)}
    assert {"excess", "passed"} <= {name for name, _ in public_members(OutputCompareResult)}


@every_module
def test_importing_is_cheap(name: str) -> None:
    code = f"import {name}, sys\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(FOREIGN)


def test_loaders_have_a_function_that_calls_them_at_once() -> None:
    for module, symbol in symbols():
        target = getattr(importlib.import_module(module), symbol)
        if inspect.isclass(target) and hasattr(target, "call_impl") and symbol != "BaseLoader":
            words = "".join(f"_{c.lower()}" if c.isupper() else c for c in symbol)
            assert words.removeprefix("_") in PUBLISHED[module]


def test_old_names_mean_the_new_things() -> None:
    from polygraphy import comparator

    assert comparator.SimpleThreshold is comparator.Tolerance
    assert comparator.CompareFunc.simple is comparator.SimpleCompareFunc
