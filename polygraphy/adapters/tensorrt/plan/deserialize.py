"""Runtimes, and engines out of plans."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from polygraphy.adapters.tensorrt.library.callbacks import raise_kept_error
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.gpu import require_gpu
from polygraphy.adapters.tensorrt.library.logger import capture_log, get_trt_logger
from polygraphy.adapters.tensorrt.library.module import tensorrt_module, trt
from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.adapters.tensorrt.network.plugins import load_own_plugins

# An engine needs the runtime that it came from, and a runtime that was loaded the one it came from.
_runtimes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def new_runtime() -> Any:
    """Make a `tensorrt.Runtime`, which knows the plugins that come with TensorRT.

    Raises:
        MissingDependencyError: TensorRT is not installed.
        BackendError: there is no GPU; TensorRT would end the process.
    """
    tensorrt_module()  # A GPU is of no use without it.
    require_gpu("Loading TensorRT engines, to run or to inspect them,")
    load_own_plugins()
    with capture_log() as reasons:
        try:
            return trt.Runtime(get_trt_logger())
        except TypeError as error:  # Its constructor answered with a null pointer.
            raise reasons.failed("make a runtime") from error


def loaded_runtime(path: str) -> Any:
    """Return the runtime in a library, such as that of another version."""
    require("lean_runtime", "LoadRuntime (--load-runtime)")
    parent = new_runtime()
    _allow_host_code(parent)
    with capture_log() as reasons:
        try:
            runtime = parent.load_runtime(path)
        except RuntimeError as error:
            reasons.add(str(error))
            runtime = None
        if runtime is None:
            raise reasons.failed(
                f"load the runtime {path}", hint="It has to be a lean or dispatch runtime library."
            )
    _runtimes[runtime] = parent
    return runtime


def deserialized(plan: Any, runtime: Any = None, dla_strategy: Any = None) -> Any:
    """Return the engine in a plan.

    Args:
        plan: the plan, as anything that has a buffer, or a stream reader.
        runtime: the `tensorrt.Runtime`, or a loader of it; None for a new one.
        dla_strategy: a `DLAWorkspaceAllocationStrategy`, or its name, for the runtime.

    Raises:
        BackendError: TensorRT refuses the plan.
    """
    made = runtime() if callable(runtime) else runtime
    if made is None:
        made = new_runtime()
    _allow_host_code(made)
    if dla_strategy is not None:
        name = dla_strategy if isinstance(dla_strategy, str) else dla_strategy.name
        asked = setting_of("dla_workspace_allocation_strategy", name)
        require("dla_workspace_allocation_strategy", asked)
        made.dla_workspace_allocation_strategy = enum_value(
            "DLAWorkspaceAllocationStrategy", name, asked
        )
    with capture_log() as reasons:
        engine = made.deserialize_cuda_engine(plan)
        raise_kept_error(plan)  # A plan may be a `FileReader`.
        if engine is None:
            caps = capabilities()
            raise reasons.failed(
                "load the engine",
                hint=f"A plan is for one version and one kind of GPU; this is {caps.name}"
                f" {caps.version}.",
            )
    _runtimes[engine] = made
    return engine


def _allow_host_code(runtime: Any) -> None:
    """Let a plan bring its own code, as version-compatible ones do."""
    if hasattr(runtime, "engine_host_code_allowed"):
        runtime.engine_host_code_allowed = True
