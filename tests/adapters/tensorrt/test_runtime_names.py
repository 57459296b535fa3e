"""The run side asks nothing of TensorRT that some version does not have, unless it looks first; and
the fake has nothing that the real ones have not.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from polygraphy.adapters import tensorrt as adapter
from tests.support.fake_tensorrt.context import Context, OldContext
from tests.support.fake_tensorrt.engine import Engine, OldEngine
from tests.support.helpers.tensorrt_run_side import RUN_SIDE
from tests.support.tensorrt_names import VERSIONS, names_of

_CLASSES = {
    "context": "IExecutionContext",
    "self.native": "IExecutionContext",
    "self._bound.native": "IExecutionContext",
    "self.context": "IExecutionContext",
    "engine": "ICudaEngine",
    "self._engine": "ICudaEngine",
    "self.engine": "ICudaEngine",
}
# What some versions lack: used only where it was found to be there.
_LOOKED_FOR = {
    "ExecutionContextAllocationStrategy",
    "ExecutionContextAllocationStrategy.USER_MANAGED",
    "ICudaEngine.create_execution_context_without_device_memory",
    "ICudaEngine.get_aliased_input_tensor",
    "ICudaEngine.get_weight_streaming_automatic_budget",
    "ICudaEngine.is_debug_tensor",
    "ICudaEngine.minimum_weight_streaming_budget",
    "ICudaEngine.weight_streaming_budget",
    "ICudaEngine.weight_streaming_budget_v2",
    "IDebugListener",
    "IExecutionContext.set_all_tensors_debug_state",
    "IExecutionContext.set_debug_listener",
    "IExecutionContext.set_device_memory",
    "IExecutionContext.update_device_memory_size_for_shapes",
}


def used_names() -> set[str]:
    folder = Path(str(adapter.__file__)).parent
    found: set[str] = set()
    for name in RUN_SIDE:
        for node in ast.walk(ast.parse(next(folder.rglob(f"{name}.py")).read_text("utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            dotted = ast.unparse(node)
            owner, _, member = dotted.rpartition(".")
            if owner in _CLASSES:
                found.add(f"{_CLASSES[owner]}.{member}")
            elif match := re.fullmatch(r"(?:trt|module)\.(\w+(?:\.\w+)?)", dotted):
                found.add(match[1])
    return {name for name in found if "__" not in name}


def test_there_are_names_to_look_at() -> None:
    used = used_names()
    assert {"IExecutionContext.execute_async_v3", "IOutputAllocator", "TensorLocation.HOST"} <= used
    assert used >= _LOOKED_FOR


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_exists_or_is_looked_for(version: str) -> None:
    known = names_of(version)
    assert {name for name in used_names() if name not in known} <= _LOOKED_FOR


def test_what_is_looked_for_is_somewhere() -> None:
    assert set().union(*(names_of(version) for version in VERSIONS)) >= _LOOKED_FOR


@pytest.mark.parametrize(
    ("fake", "name", "version"),
    [
        (OldEngine, "ICudaEngine", "8.6.0"),
        (Engine, "ICudaEngine", "10.16.1.11"),
        (OldContext, "IExecutionContext", "8.6.0"),
        (Context, "IExecutionContext", "10.16.1.11"),
    ],
)
def test_the_fake_is_no_richer_than_the_real_one(fake: type, name: str, version: str) -> None:
    ours = {
        member
        for member, value in _members(fake).items()
        if not member.startswith("_") and (callable(value) or isinstance(value, property))
    }
    assert ours
    assert {f"{name}.{member}" for member in ours} <= set(names_of(version))


def _members(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind)}
