"""Every path by which public code uses the API is there: `client_paths.tsv` holds what 372 files of 65
public repositories import, call, override and read.

Its columns are where a name is looked up, the name, and what is done with it: ``import``,
``attribute``, ``call keyword``, ``call positional`` (the name is how many), ``subclass``,
``override``. An owner such as ``Profile()`` is an instance of a class.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.cases import for_each

ROWS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("client_paths.tsv").read_text().splitlines()
]

HOMES = {
    "BaseRunner": "polygraphy.backend.base",
    "CreateConfig": "polygraphy.backend.trt",
    "DeviceArray": "polygraphy.cuda",
    "EngineFromNetwork": "polygraphy.backend.trt",
    "IterationResult": "polygraphy.comparator",
    "OnnxrtRunner": "polygraphy.backend.onnxrt",
    "Profile": "polygraphy.backend.trt",
    "RunResults": "polygraphy.comparator",
    "Stream": "polygraphy.cuda",
    "TensorMetadata": "polygraphy.common",
    "TrtRunner": "polygraphy.backend.trt",
}

OF_INSTANCES = {
    ("DeviceArray", "dtype"),
    ("DeviceArray", "ptr"),
    ("DeviceArray", "shape"),
    ("OnnxrtRunner", "sess"),
    ("Stream", "ptr"),
    ("TrtRunner", "context"),
    ("TrtRunner", "engine"),
    ("TrtRunner", "active_optimization_profile"),
}
"""What only instances have, of classes whose instances need a GPU or a model."""


def found(path: str) -> Any:
    """Return what a dotted path leads to; each part is an attribute, or a submodule."""
    head, _, rest = path.partition(".")
    if head.endswith("()"):
        owner: Any = getattr(importlib.import_module(HOMES[head[:-2]]), head[:-2])
    else:
        owner = importlib.import_module(head)
    for part in filter(None, rest.split(".")):
        if isinstance(owner, ModuleType) and not hasattr(owner, part):
            importlib.import_module(f"{owner.__name__}.{part}")
        owner = getattr(owner, part)
    return owner


NOWHERE = {("EngineFromNetwork()", "4", "call positional")}
"""What public code does that no version takes."""


def test_the_list_is_whole() -> None:
    assert len(ROWS) > 250
    assert len({kind for _, _, kind in ROWS}) == 6
    assert all(len(row) == 3 for row in ROWS)


@for_each("owner, name, kind", [row for row in ROWS if row not in NOWHERE])
def test_a_path_of_public_code_is_there(owner: str, name: str, kind: str) -> None:
    target = found(owner)
    if kind == "import" and name:
        namespace: dict[str, Any] = {}
        exec(f"from {owner} import {name}", namespace)
        assert name in namespace
    elif kind in ("attribute", "override"):
        in_instances = (owner.removesuffix("()"), name) in OF_INSTANCES
        assert in_instances or hasattr(target, name)
    elif kind == "subclass":
        assert inspect.isclass(type("Own", (target,), {}))
    elif kind.startswith("call"):
        check_call(target, owner, name, keyword=kind == "call keyword")


def check_call(target: Callable[..., Any], owner: str, name: str, *, keyword: bool) -> None:
    if owner.endswith("()"):  # The instance is called.
        target = getattr(target, "call_impl", target.__call__)
    own = 1 if "()" in owner else 0
    parameters = inspect.signature(target).parameters.values()
    if any(each.kind == each.VAR_POSITIONAL for each in parameters):
        return  # An old name of a function that is looked at under its new one.
    if keyword:
        takes_more = any(each.kind == each.VAR_KEYWORD for each in parameters)
        assert takes_more or name in {each.name for each in parameters}
        return
    by_position = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    assert len(by_position) - own >= int(name)


SUBMODULES = [
    "backend.base.loader",
    "backend.base.runner",
    "backend.base.util",
    "backend.common.loader",
    "backend.onnx.loader",
    "backend.onnx.util",
    "backend.onnxrt.loader",
    "backend.onnxrt.runner",
    "backend.pluginref.references",
    "backend.pluginref.runner",
    "backend.pyt.runner",
    "backend.tensorrt_rtx.config",
    "backend.tf.loader",
    "backend.tf.runner",
    "backend.tf.util",
    "backend.trt.algorithm_selector",
    "backend.trt.calibrator",
    "backend.trt.config",
    "backend.trt.file_reader",
    "backend.trt.loader",
    "backend.trt.profile",
    "backend.trt.runner",
    "backend.trt.util",
    "common.constants",
    "common.exception",
    "common.interface",
    "common.struct",
    "comparator.comparator",
    "comparator.compare",
    "comparator.data_loader",
    "comparator.postprocess",
    "comparator.struct",
    "comparator.util",
    "cuda.cuda",
    "datatype.datatype",
    "datatype.numpy",
    "datatype.onnx",
    "datatype.onnxrt",
    "datatype.tensorrt",
    "datatype.torch",
    "exception.exception",
    "func.func",
    "json.serde",
    "logger.logger",
    "mod.exporter",
    "mod.importer",
    "mod.trt_importer",
    "mod.util",
    "util.array",
    "util.misc",
    "util.util",
]


@pytest.mark.parametrize("path", SUBMODULES)
def test_a_submodule_is_an_address_of_its_package(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"polygraphy.{path}")
    assert module.__doc__
    package = importlib.import_module(module.__name__.rpartition(".")[0])
    for name in set(vars(module)) & set(getattr(package, "__all__", ())):
        # Such as the type `numpy` of `polygraphy.datatype`, a submodule of that name is meant.
        if not isinstance(getattr(package, name), ModuleType):
            assert getattr(module, name) is getattr(package, name)
    monkeypatch.setattr(module, "set_by_a_patch", 1, raising=False)
    assert found(f"polygraphy.{path}").set_by_a_patch == 1


def test_submodules_are_there_without_an_import_of_their_own_and_cost_nothing_heavy() -> None:
    lines = ["import sys"]
    for path in SUBMODULES:
        package = path.rpartition(".")[0]
        lines += [f"import polygraphy.{package}", f"polygraphy.{path}.__name__"]
    lines.append("print(*sorted({name.partition('.')[0] for name in sys.modules}))")
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"onnx", "onnxruntime", "onnx_graphsurgeon", "tensorrt", "tensorflow", "torch", "cuda"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize("path", ["polygraphy.tools", "polygraphy.tools.args.base"])
def test_the_tools_say_where_commands_are_added(path: str) -> None:
    with pytest.raises(ImportError, match=r"entry-point group polygraphy\.backends") as caught:
        importlib.import_module(path)
    assert "\n" not in str(caught.value)
