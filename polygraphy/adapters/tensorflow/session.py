"""TensorFlow sessions, and how they are configured."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.module import tensorflow_module
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
    """Makes the configuration of a TensorFlow session."""

    def __init__(
        self,
        gpu_memory_fraction: float | None = None,
        allow_growth: bool | None = None,
        use_xla: bool | None = None,
    ) -> None:
        """Describe the session.

        Args:
            gpu_memory_fraction: the share of the GPU's memory that the process may take
                (default: 0.9).
            allow_growth: whether memory of the GPU is taken as it is needed.
            use_xla: whether the graph is compiled with XLA, on the CPU too.
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
    """Let sessions compile for the CPU too: TensorFlow reads the flag when it first compiles."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _XLA_ON_CPU not in flags:
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_XLA_ON_CPU}".strip()


@mod.export(funcify=True)
class SessionFromGraph(BaseLoader):
    """Makes a TensorFlow session that runs a graph."""

    def __init__(self, graph: Deferred[GraphAndOutputs], config: Deferred[Any] = None) -> None:
        """Take the parts.

        Args:
            graph: a graph and the names of its outputs, or a loader that makes them.
            config: a `tf.compat.v1.ConfigProto`, or a loader that makes one, such as
                `CreateConfig`, which is the default.
        """
        self._graph = graph
        self._config = CreateConfig() if config is None else config

    def call_impl(self) -> SessionAndOutputs:
        """Return the session, and the names of the outputs."""
        config = evaluate(self._config)
        graph, outputs = evaluate(self._graph)
        with translated_errors("start a session of"):
            session = tensorflow_module().compat.v1.Session(graph=graph, config=config)
        return session, outputs
