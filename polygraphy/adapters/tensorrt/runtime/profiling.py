"""Runs an engine with TensorRT's profiler, which measures each layer on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.tensorrt.describe.describe_engine import layer_information
from polygraphy.adapters.tensorrt.describe.layer_times import layer_nodes
from polygraphy.adapters.tensorrt.library.module import ModuleKey, tensorrt_module, trt
from polygraphy.domain.errors import BackendError
from polygraphy.domain.profiling.execution import ExecutionProfile

if TYPE_CHECKING:
    from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner

_MILLISECONDS, _MICROSECONDS = 1e3, 1e6


class EngineProfiler:
    """Runs the context of a runner with a profiler; see the port `NodeProfiler`."""

    def __init__(self, runner: TrtRunner) -> None:
        """Profile the layers of an active runner until `close`."""
        self._runner = runner
        self._recorder = _recorder_class(ModuleKey(tensorrt_module()))()
        self._layers: list[Any] = []
        self._runs: list[dict[str, float]] = []
        self._times: list[float] = []
        self._was_timed: bool | None = runner.time_on_device(True)

    def infer(self, feed_dict: Mapping[str, Any]) -> None:
        """Run the engine once. Layers are reported after the run, because reporting takes time."""
        self._recorder.times = {}
        runner = self._runner
        with runner.profile_with(self._recorder):
            runner.infer(dict(feed_dict), check_inputs=False)
            runner.context.report_to_profiler()
            if not self._recorder.times:  # Some versions report times only during a run.
                runner.context.enqueue_emits_profile = True
                runner.infer(dict(feed_dict), check_inputs=False)
            measured = runner.last_device_times()
            total = runner.last_inference_time() if measured is None else measured.compute
            self._layers = self._layers or layer_information(runner.engine, runner.context)
        self._runs.append(self._recorder.times)
        self._times.append((total or 0.0) * _MICROSECONDS)

    def finish(self, groups: Sequence[Sequence[int]]) -> list[ExecutionProfile]:
        """Return the profile of each group of runs; see the port."""
        profiles = []
        for group in groups:
            runs = [self._runs[number] for number in group]
            names = dict.fromkeys(name for run in runs for name in run)
            if not names:
                raise BackendError("TensorRT reported no layer times.", backend="tensorrt")
            times = {name: [run.get(name, 0.0) * _MILLISECONDS for run in runs] for name in names}
            notes = []
            if not any(isinstance(layer, Mapping) for layer in self._layers):
                notes.append(
                    "Layers are matched by name only: build the engine with"
                    " --profiling-verbosity detailed."
                )
            profiles.append(
                ExecutionProfile(
                    "",
                    layer_nodes(self._layers, times),
                    "trt",
                    f"TensorRT {getattr(trt, '__version__', '')}",
                    run_times=[self._times[number] for number in group],
                    notes=notes,
                )
            )
        return profiles

    def close(self) -> None:
        """Restore normal runs; the context belongs to the runner."""
        if self._was_timed is not None and self._runner.is_active:
            self._runner.time_on_device(self._was_timed)
        self._was_timed = None


@lru_cache(maxsize=8)
def _recorder_class(key: ModuleKey) -> Any:
    """Return the class of profilers, derived from that of the TensorRT module in use."""
    base: Any = key.module.IProfiler

    class Recorder(base):  # type: ignore[misc]
        """Adds up the milliseconds of each layer."""

        def __init__(self) -> None:
            """Start without times."""
            base.__init__(self)
            self.times: dict[str, float] = {}

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            """Add the time of a layer, in milliseconds."""
            self.times[layer_name] = self.times.get(layer_name, 0.0) + ms

    return Recorder
