"""Runs graphs in TensorFlow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.os.paths import atomic_file
from polygraphy.adapters.tensorflow.graphs import describe, input_tensors
from polygraphy.adapters.tensorflow.module import tensorflow_module, translate_errors
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from typing import TypeAlias

    import tensorflow

    from polygraphy.adapters.tensorflow.module import GraphAndOutputs

    SessionAndOutputs: TypeAlias = tuple[tensorflow.compat.v1.Session, list[str]]


create_config: Callable[..., Any]
session_from_graph: Callable[..., SessionAndOutputs]

_XLA_ON_CPU = "--tf_xla_cpu_global_jit"


@mod.export(funcify=True)
class CreateConfig(BaseLoader):
    """Creates the configuration of a TensorFlow session."""

    def __init__(
        self,
        gpu_memory_fraction: float | None = None,
        allow_growth: bool | None = None,
        use_xla: bool | None = None,
    ) -> None:
        """Set the options of the session.

        Args:
            gpu_memory_fraction: the share of the GPU's memory that the process may take
                (default: 0.9).
            allow_growth: whether GPU memory is allocated on demand.
            use_xla: whether the graph is compiled with XLA, also on the CPU.
        """
        self._gpu_memory_fraction = 0.9 if gpu_memory_fraction is None else gpu_memory_fraction
        self._allow_growth = bool(allow_growth)
        self._use_xla = bool(use_xla)

    def call_impl(self) -> Any:
        """Return a `tf.compat.v1.ConfigProto`."""
        if self._use_xla:
            _allow_xla_on_cpu()
        v1 = tensorflow_module().compat.v1
        gpu = v1.GPUOptions(
            per_process_gpu_memory_fraction=self._gpu_memory_fraction,
            allow_growth=self._allow_growth,
        )
        config = v1.ConfigProto(gpu_options=gpu)
        if self._use_xla:
            level = v1.OptimizerOptions.ON_1
            config.graph_options.optimizer_options.global_jit_level = level
        G_LOGGER.verbose(
            f"TensorFlow session: gpu_memory_fraction={self._gpu_memory_fraction},"
            f" allow_growth={self._allow_growth}, use_xla={self._use_xla}"
        )
        return config


def _allow_xla_on_cpu() -> None:
    """Allow sessions to compile for the CPU.
    TensorFlow reads the setting at its first compilation."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _XLA_ON_CPU not in flags:
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_XLA_ON_CPU}".strip()


@mod.export(funcify=True)
class SessionFromGraph(BaseLoader):
    """Creates a TensorFlow session that runs a graph."""

    def __init__(self, graph: Deferred[GraphAndOutputs], config: Deferred[Any] = None) -> None:
        """Create a loader of a session for a graph, with an optional configuration.

        Args:
            graph: a graph and the names of its outputs, or a loader that returns them.
            config: a `tf.compat.v1.ConfigProto`, or a loader that returns one (default:
                `CreateConfig()`).
        """
        self._graph = graph
        self._config = CreateConfig() if config is None else config

    def call_impl(self) -> SessionAndOutputs:
        """Return the session, and the names of the outputs."""
        config = evaluate(self._config)
        graph, outputs = evaluate(self._graph)
        with translate_errors("start a session of"):
            session = tensorflow_module().compat.v1.Session(graph=graph, config=config)
        return session, outputs


numpy = mod.lazy_import("numpy")

_now = time.perf_counter


@mod.export()
class TfRunner(BaseRunner):
    """Runs a TensorFlow session, with NumPy arrays as inputs and outputs.

    Inputs and outputs have the names of the tensors in the graph, which end with the index of the
    operation's output: ``x:0``.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True

    def __init__(
        self,
        sess: Deferred[SessionAndOutputs],
        timeline_dir: str | None = None,
        name: str | None = None,
    ) -> None:
        """Create a runner of a session, or of the session that a loader returns on activation.

        Args:
            sess: a session and the names of the outputs, or a loader that returns them when the
                runner is activated; a session that the runner created is closed with it.
            timeline_dir: the folder for a trace of each inference, for ``chrome://tracing`` or
                Perfetto; tracing takes time.
            name: see `BaseRunner`.
        """
        super().__init__(name=name, prefix="tf-runner")
        self._session = sess
        self._timeline_dir = timeline_dir
        self._traces = 0
        self.sess: Any = None
        self._output_names: list[str] = []

    def activate_impl(self) -> None:
        """Create the session."""
        self.sess, self._output_names = evaluate(self._session)

    def deactivate_impl(self) -> None:
        """Close the session, if the runner created it."""
        session, self.sess = self.sess, None
        if callable(self._session):
            session.close()

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return names, data types and shapes of the graph's placeholders.
        A dynamic dimension is None.
        """
        return describe(input_tensors(self.sess.graph))

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs of one run of the session.

        Returns:
            One NumPy array per output; they belong to the caller.
        """
        names = self._output_names
        tracing = {} if self._timeline_dir is None else self._tracing()
        start = _now()
        with translate_errors("run"):
            outputs = self.sess.run(names, dict(feed_dict), **tracing)
        self.inference_time = _now() - start
        if tracing:
            self._save_trace(tracing["run_metadata"])
        return {name: _owned_array(output, feed_dict) for name, output in zip(names, outputs)}

    def _tracing(self) -> dict[str, Any]:
        """Return the arguments of `Session.run` that record a trace."""
        v1 = tensorflow_module().compat.v1
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        return {"options": options, "run_metadata": v1.RunMetadata()}

    def _save_trace(self, recorded: Any) -> None:
        """Write the trace of an inference to its file."""
        from tensorflow.python.client.timeline import Timeline

        path = Path(str(self._timeline_dir)) / f"run-{self._traces}.json"
        self._traces += 1
        trace = Timeline(recorded.step_stats).generate_chrome_trace_format()
        with atomic_file(path, "w") as stream:
            stream.write(trace)
        G_LOGGER.verbose(f"Saved the trace of an inference to {path.absolute()}")


def _owned_array(output: Any, feed_dict: Mapping[str, Any]) -> Any:
    """Return an output as an array that the caller owns; strings become bytes in object arrays."""
    array = numpy.asarray(output)
    if array.dtype == object:
        texts = [value.decode("utf-8", "surrogateescape") for value in array.ravel().tolist()]
        return numpy.array(texts, dtype=numpy.str_).reshape(array.shape)
    is_fed = any(numpy.may_share_memory(array, fed) for fed in feed_dict.values())
    return array.copy() if is_fed or not array.flags.writeable else array
