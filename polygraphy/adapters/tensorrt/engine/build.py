"""Builds plans and engines from networks, in the precision that a configuration requests, even if
TensorRT has no flag for it.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar, Union

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.os.signals import watch_signals
from polygraphy.adapters.tensorrt.describe.build_record import (
    record_build,
    record_of,
    remember_record,
)
from polygraphy.adapters.tensorrt.describe.describe_engine import network_dtypes
from polygraphy.adapters.tensorrt.engine.config import CreateConfig, request_of
from polygraphy.adapters.tensorrt.engine.config_settings import FLAGS
from polygraphy.adapters.tensorrt.engine.tactics import replay_and_record_tactics
from polygraphy.adapters.tensorrt.engine.timing_cache import ensure_timing_cache, save_timing_cache
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import (
    ModuleKey,
    capture_log,
    log_listener,
    raise_kept_errors,
    require_gpu,
    setting_of,
    tensorrt_module,
    trt,
)
from polygraphy.adapters.tensorrt.network.network import NetworkParts, parts_of
from polygraphy.adapters.tensorrt.network.onnx_network import (
    NetworkSource,
    fingerprint,
    remember_source,
    source_of,
)
from polygraphy.adapters.tensorrt.plan.engine import deserialize_plan
from polygraphy.adapters.tensorrt.precision.casting import (
    CastJob,
    PrecisionRequest,
    cast_parsed_models,
)
from polygraphy.binding import resolve
from polygraphy.domain.catalog.precisions import PRECISIONS
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.last_words import dismiss_witnesses, last_words
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device
from polygraphy.ports.reporting import Progress
from polygraphy.termination import ENDING_SIGNALS, end_program

T = TypeVar("T")

_CAN_STOP = "stopping; Ctrl-C again ends the process"
_CANNOT_STOP = "TensorRT cannot be stopped; Ctrl-C again ends the process"

_CRASHED = (
    "[!] The process ended while TensorRT built an engine: TensorRT crashed, or the process was"
    " killed."
)

_PARTS = (
    (re.compile(r"^-+ Timing Runner: (.+)"), "timing {}"),
    (re.compile(r"^After (.+): (\d+) layers"), "optimizing the network: {1} layers after {0}"),
)
"""TensorRT log messages that show the current step if there is no progress monitor."""

_PATIENCE = 5.0
"""Seconds that a build has to stop after SIGTERM, half of those until a SIGKILL usually follows."""


def watch_build(config: Any, build: Callable[[], T]) -> T:
    """Return the result of a build; its progress is shown, and Ctrl-C or SIGTERM stops it.

    If the configuration has a progress monitor of its own, only that monitor receives the progress
    and can stop the build. Then, as with TensorRT 8.6, SIGTERM ends the process.

    Raises:
        KeyboardInterrupt: ctrl-C was pressed; the build has ended.
        SystemExit: or whatever else the handler of SIGTERM raises, for the same reason.
    """
    can_stop = capabilities().has("progress_monitor") and config.progress_monitor is None
    with resolve(Progress).watch("Building engine") as tell, last_words(_CRASHED):
        signals = _Signals(can_stop, tell)
        if not can_stop:
            with log_listener(partial(_report_stage, tell, signals.has_signal)):
                return signals.call_interruptibly(build)
        monitor = _monitor_class(ModuleKey(tensorrt_module()))(tell, signals.has_signal)
        config.progress_monitor = monitor
        try:
            return signals.call_interruptibly(build)
        finally:
            config.progress_monitor = None


class _Signals:
    """Handles Ctrl-C and SIGTERM during a build, if Python handles them."""

    def __init__(self, can_stop: bool, tell: Callable[[str], None]) -> None:
        """Set whether the build can be stopped, and the function that reports it.

        Args:
            can_stop: whether the build can be stopped.
            tell: called with a message about the first signal.
        """
        self._can_stop = can_stop
        self._tell = tell
        self._handlers: dict[int, Callable[[int, Any], Any]] = {}
        # The first signal, which the main thread handles after the build.
        self._first: int | None = None
        self._heard: list[int] = []  # All signals, recorded as soon as they arrive.
        self._patience = threading.Timer(_PATIENCE, partial(_exit_like_signal, signal.SIGTERM))
        self._patience.daemon = True

    def has_signal(self) -> bool:
        """Return whether a signal has arrived, from any thread."""
        return bool(self._heard)

    def call_interruptibly(self, call: Callable[[], T]) -> T:
        """Return the result of a function.
        Signals are collected meanwhile, and the handler of the first one is called afterwards.

        In threads other than the main thread, where no signals arrive, it only makes the call.
        """
        if threading.current_thread() is not threading.main_thread():
            return call()
        getsignals = {
            number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING_SIGNALS)
        }
        self._handlers = {
            number: handler for number, handler in getsignals.items() if callable(handler)
        }
        for number in self._handlers:
            signal.signal(number, self._handle)
        try:
            return watch_signals(self._handle_signal, call)
        finally:
            self._patience.cancel()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            if self._first is not None:
                self._handlers[self._first](self._first, None)

    def _handle(self, number: int, frame: Any) -> None:
        """Handle a signal in the main thread, when TensorRT calls back or the build has ended."""
        if not self._may_wait(number):
            _handle_or_end(self._handlers[number], number, frame)
        elif self._first is None:
            self._first = number

    def _handle_signal(self, number: int) -> None:
        """React to a signal at once, in another thread."""
        handler = self._handlers.get(number)
        if handler is end_program and not self._may_wait(number):
            _exit_like_signal(number)
        if handler is None or not self._may_wait(number):
            return  # A handler of the user may only record the signal, in the main thread.
        self._heard.append(number)
        if len(self._heard) > 1:  # After a second signal, the user does not want to wait.
            _exit_like_signal(number)
        if handler is end_program:
            self._patience.start()
        self._tell(_CAN_STOP if self._can_stop else _CANNOT_STOP)

    def _may_wait(self, number: int) -> bool:
        """Return whether a signal can be handled after the build."""
        return self._can_stop or number == signal.SIGINT


def _report_stage(tell: Callable[[str], None], is_stopping: Callable[[], bool], line: str) -> None:
    """Report the stage of a build that a line of TensorRT's log announces."""
    for pattern, form in _PARTS:
        match = pattern.match(line)
        if match is not None and not is_stopping():
            tell(form.format(*(" ".join(group.split()) for group in match.groups())))


def _handle_or_end(handler: Callable[[int, Any], Any], number: int, frame: Any) -> None:
    """Call a signal handler; end the process if the handler requests that."""
    try:
        handler(number, frame)
    except SystemExit as end:
        _end_process(1 if isinstance(end.code, str) else int(end.code or 0))


def _exit_like_signal(number: int) -> NoReturn:
    """End the process with the exit code that a signal causes."""
    _end_process(128 + number)


def _end_process(code: int) -> NoReturn:
    """End the process at once with an exit code."""
    dismiss_witnesses()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


@lru_cache(maxsize=8)
def _monitor_class(key: ModuleKey) -> Any:
    """Return the class of progress monitors, derived from that of the TensorRT module in use."""
    base: Any = key.module.IProgressMonitor

    class Monitor(base):  # type: ignore[misc]
        """Reports the progress of TensorRT; called by it, from any thread."""

        def __init__(
            self, tell: Callable[[str], None], is_asked_to_stop: Callable[[], bool]
        ) -> None:
            """Set the function that reports progress, and the one that asks whether to stop."""
            base.__init__(self)
            self._tell = tell
            self._is_asked_to_stop = is_asked_to_stop
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """Record that a part of the build begins."""
            self._steps[phase_name] = num_steps
            self._tell_unless_stopping(phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Record a step of a part; return whether the build continues."""
            steps = self._steps.get(phase_name, 0)
            self._tell_unless_stopping(f"{phase_name} ({step + 1} of {steps})")
            return not self._is_asked_to_stop()

        def phase_finish(self, phase_name: str) -> None:
            """Record that a part of the build ended."""

        def _tell_unless_stopping(self, part: str) -> None:
            """Report a part of the build, unless the build is being stopped."""
            if not self._is_asked_to_stop():
                self._tell(part)

    return Monitor


engine_bytes_from_network: Callable[..., Any]
engine_from_network: Callable[..., Any]

_ADVICE = {
    "_lean": (
        f"Exclude the lean runtime from the engine ({setting_of('exclude_lean_runtime')}), or"
        " install its library."
    ),
    "int8 is not configured": f"The model is quantized (Q/DQ nodes): add {setting_of('int8')}.",
}
"""Advice by a part of the log of a failed build."""

_CASTS = {"FP16": "--fp-to-fp16", "BF16": "--to-bf16"}
"""The flags that cast models."""

PathOrFile = Union[str, "Path", IO[bytes]]


@mod.export(funcify=True)
class EngineBytesFromNetwork(BaseLoader):
    """Builds a serialized engine (a plan) from a network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        config: Any = None,
        save_timing_cache: PathOrFile | None = None,
        *,
        device: int | None = None,
    ) -> None:
        """Set the network, the configuration and the timing cache.

        Args:
            network: builder, network and, where there is one, parser; or a loader that returns
                them.
            config: the `IBuilderConfig`, or a callable that gets a builder and a network and
                returns one (default: ``CreateConfig()``).
            save_timing_cache: the file to which the measurements of the build are added.
            device: index of the GPU to build on and for (default: the one that the calling thread
                uses). An existing builder stays on its GPU, so `network` must be a loader.
        """
        if device is not None and not callable(network):
            raise UsageError(
                f"device={device}: the builder of this network already uses a GPU.",
                hint="Pass a loader of the network, or use polygraphy.cuda.use_device.",
            )
        self._network = network
        self._device = device
        self._config = CreateConfig() if config is None else config
        self._save_timing_cache = save_timing_cache

    def call_impl(self) -> Any:
        """Return the plan, a `tensorrt.IHostMemory`.

        Raises:
            BackendError: TensorRT cannot build the network, or cannot build it in the requested
                precision.
            UsageError: the network has no outputs, a profile does not fit it, or the GPU does not
                exist.
        """
        if self._device is None:  # This does not call CUDA: TensorRT-RTX builds without a GPU.
            return self._build()
        with resolve(Device).use(self._device):
            return self._build()

    def _build(self) -> Any:
        """Build the engine, save the timing cache, and return the plan."""
        parts = network_for_request(self._network, request_of(self._config))
        builder, network = parts[0], parts[1]
        config = self._config(builder, network) if callable(self._config) else self._config
        request = request_of(config)
        if request:
            parts = cast_network(self._network, parts, request)
            network = parts[1]
        _check(network, config)
        if self._save_timing_cache is not None:
            ensure_timing_cache(config)
        plan = _build_plan(builder, network, config)
        origin = source_of(network)
        record = record_build(
            config,
            model=origin.model if origin else "",
            precision=str(origin.request) if origin and origin.request else "",
            plan_size=plan.nbytes,
        )
        dtypes = network_dtypes(network, record.flags)
        remember_record(plan, evolve(record, compute_dtypes=dtypes))
        if self._save_timing_cache is not None:
            save_timing_cache(config, self._save_timing_cache)
        return plan


def _check(network: Any, config: Any) -> None:
    """Raise an error if a network and a configuration cannot be built together."""
    if network.num_outputs == 0:
        raise UsageError(
            "The network has no outputs, so there is nothing to build.",
            hint="Mark an output, or check the log of the parser.",
        )
    caps = capabilities()
    if caps.has("compute_capability"):
        _check_rtx(config)
    if not (caps.has("weak_typing") and caps.has("strongly_typed")):
        return
    if not network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED):
        return
    for name in ("FP16", "BF16", "INT8", "FP8"):
        flag = getattr(trt.BuilderFlag, name, None)
        if flag is not None and config.get_flag(flag):
            raise UsageError(
                f"{name} cannot be combined with a strongly typed network.",
                hint=f"Remove {setting_of('strongly_typed')}{_cast_advice(name)}.",
            )


def _cast_advice(flag: str) -> str:
    """Return the end of a sentence with another way to build the model in a precision."""
    if flag not in _CASTS:
        return ""
    return f", or use cast={flag.lower()!r} ({_CASTS[flag]}) when the network is parsed"


def _check_rtx(config: Any) -> None:
    """Raise an error if TensorRT-RTX needs a GPU for a setting and there is none."""
    for argument in ("refittable", "strip_plan"):
        if config.get_flag(getattr(trt.BuilderFlag, FLAGS[argument][0])):
            require_gpu(f"Building with TensorRT-RTX and {setting_of(argument)}")
    chosen = [
        config.get_compute_capability(index) for index in range(config.num_compute_capabilities)
    ]
    if trt.ComputeCapability.CURRENT in chosen:
        require_gpu("Building with TensorRT-RTX for the GPU of this machine")


def _build_plan(builder: Any, network: Any, config: Any) -> Any:
    """Return the plan that TensorRT builds; raise BackendError with its reasons if it fails."""
    G_LOGGER.start(
        f"Building engine: {network.num_layers} layers, {network.num_inputs} inputs,"
        f" {network.num_outputs} outputs, {config.num_optimization_profiles} profiles"
    )
    calibrator: Any = getattr(config, "int8_calibrator", None)
    try:
        with capture_log() as reasons, replay_and_record_tactics(config):
            build = partial(builder.build_serialized_network, network, config)
            plan = watch_build(config, build)
        raise_kept_errors(config)
    finally:
        if hasattr(calibrator, "free"):
            calibrator.free()
    if plan is None:
        advice = (hint for text, hint in _ADVICE.items() if text in str(reasons))
        raise reasons.error_for("build the engine", hint=next(advice, ""))
    G_LOGGER.finish(f"Finished engine building: {plan.nbytes} bytes")
    return plan


@mod.export(funcify=True)
class EngineFromNetwork(BaseLoader):
    """Builds an engine from a network.

    If networks are strongly typed, settings such as ``CreateConfig(fp16=True)`` cast the ONNX model
    from which the network was parsed. A loader of the network is called within the cast. A parsed
    network is parsed again, with the same edits by loaders of this package. A network with other
    edits is rejected, because it would have to be built in float32.
    """

    def __init__(
        self,
        network: Deferred[NetworkParts],
        config: Any = None,
        save_timing_cache: PathOrFile | None = None,
        runtime: Any = None,
        dla_workspace_allocation_strategy: Any = None,
        *,
        device: int | None = None,
    ) -> None:
        """Set the network, the configuration and the timing cache.

        Args:
            network: builder, network and, where there is one, parser; or a loader that returns
                them.
            config: the `IBuilderConfig`, or a callable that gets a builder and a network and
                returns one (default: ``CreateConfig()``).
            save_timing_cache: the file to which the measurements of the build are added.
            runtime: the `tensorrt.Runtime`, or a loader of it (default: a new one).
            dla_workspace_allocation_strategy: the strategy of that runtime.
            device: index of the GPU to build and load on; see `EngineBytesFromNetwork`.
        """
        self.timing_cache_path = save_timing_cache
        self._plan = EngineBytesFromNetwork(network, config, save_timing_cache, device=device)
        self._device = device
        self._runtime = runtime
        self._strategy = dla_workspace_allocation_strategy

    def call_impl(self) -> Any:
        """Return the `tensorrt.ICudaEngine`.

        Raises:
            BackendError: TensorRT cannot build the network, or cannot load the plan.
        """
        plan = self._plan.call_impl()
        if self._device is None:
            engine = deserialize_plan(plan, self._runtime, self._strategy)
        else:
            with resolve(Device).use(self._device):
                engine = deserialize_plan(plan, self._runtime, self._strategy)
        record = record_of(plan)
        if record is not None:
            remember_record(engine, record)
        return engine


def network_for_request(network: Deferred[NetworkParts], request: PrecisionRequest) -> NetworkParts:
    """Return a network whose model is cast to a requested precision, if the request is already
    known.

    Args:
        network: builder, network and, where there is one, parser; or a loader that returns them.
        request: the requested precisions; none if TensorRT has flags for them.

    Raises:
        BackendError: the network cannot be parsed again from a cast model.
    """
    if not request:
        return parts_of(network)
    with cast_parsed_models(CastJob(request)) as job:
        parts = parts_of(network)
    return parts if job.is_done else _rebuild_network(parts, request)


def cast_network(
    network: Deferred[NetworkParts], parts: NetworkParts, request: PrecisionRequest
) -> NetworkParts:
    """Return a network of the same builder whose model is cast to a requested precision.

    Args:
        network: the source of the network.
        parts: the builder, network and parser from the source.
        request: the precisions that its configuration requests.

    Raises:
        BackendError: the network cannot be parsed again from a cast model.
    """
    origin = source_of(parts[1])
    if origin is not None and origin.request == request:
        return parts
    if callable(network):
        with cast_parsed_models(CastJob(request, parts[0])) as job:
            again = parts_of(network)
        if job.is_done:
            return again
    return _rebuild_network(parts, request)


def _rebuild_network(parts: NetworkParts, request: PrecisionRequest) -> NetworkParts:
    """Return the network parsed again from its cast source, with the edits of its loaders
    repeated."""
    network = parts[1]
    origin = source_of(network)
    if origin is not None and origin.request is not None:
        if origin.request == request or (
            origin.request.floats == request.floats and request.quantized is None
        ):
            return parts
        raise _uncastable_error(request, f"its model was already cast to {origin.request}")
    if origin is None or origin.parse is None:
        raise _uncastable_error(request, "it was not parsed from an ONNX model in this process")
    if fingerprint(network) != origin.seen:
        raise _uncastable_error(request, "it was edited after parsing")
    again = origin.parse(CastJob(request, parts[0], dict(origin.layer_precisions)))
    for edit in origin.edits:
        edit(again[1])
    # The first network remains unchanged: it may be built again, in another precision.
    network_source = NetworkSource(
        origin.parse,
        origin.model,
        request,
        list(origin.edits),
        layer_precisions=dict(origin.layer_precisions),
    )
    remember_source(again[1], network_source)
    return again


def _uncastable_error(request: PrecisionRequest, why: str) -> BackendError:
    """Return the error that a network cannot be cast to a precision."""
    caps = capabilities()
    names = {precision.dtype: name for name, precision in PRECISIONS.items()}
    name = names.get(str(request.floats))
    remedy = (
        f"Cast before you edit: NetworkFromOnnxPath(path, cast={name!r})."
        if request.floats is not None and request.quantized is None
        else "Quantize the ONNX model (Q/DQ nodes), and build that."
    )
    return BackendError(
        f"{caps.name} {caps.version} takes data types from the network, which cannot be cast to"
        f" {request}: {why}.",
        backend="tensorrt",
        hint=f"{remedy} It would otherwise be built in fp32.",
    )
