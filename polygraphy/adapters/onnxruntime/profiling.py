"""Runs a session with the profiler of ONNX Runtime."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.arrays.foreign import host_copy
from polygraphy.adapters.onnxruntime.providers import translate_errors
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx
from polygraphy.adapters.onnxruntime.trace import profile_runs, read_trace
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.profiling.execution import ExecutionProfile, ModelNodes
from polygraphy.ports.running import model_nodes

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

onnxrt = mod.lazy_import("onnxruntime>=1.10.0")

_GRAPH = "executed.onnx"
_WEIGHTS = "session.optimized_model_external_initializers_file_name"
_BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""The variable with which CUDA waits for each kernel. CUDA reads it when it starts."""
_STOP_SPINNING = "session.force_spinning_stop"


class SessionProfiler:
    """Runs a session that writes a trace; see the port `NodeProfiler`."""

    def __init__(
        self,
        source: Any,
        session: InferenceSession,
        run: Callable[[InferenceSession], Callable[..., Any]],
    ) -> None:
        """Create a session that profiles.

        Args:
            source: the argument of the runner: a loader or a session.
            session: the session of the runner, made of it.
            run: returns what runs a session, with names of outputs and a feed dictionary.

        Raises:
            BackendError: the model is not known any more.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="polygraphy-profile-"))
        self._session: InferenceSession | None = None
        self._run: Callable[..., Any] | None = None
        try:
            self._session = self._open_session(source, session)
        except BaseException:
            self.close()
            raise
        self._names = [output.name for output in self._session.get_outputs()]
        self._run = run(self._session)

    def _open_session(self, source: Any, session: InferenceSession) -> InferenceSession:
        """Return a session that profiles, with its executed graph if possible."""
        try:
            return self._create_session(source, session, keeps_graph=True)
        except PolygraphyException:  # A provider that compiles nodes cannot save the graph.
            return self._create_session(source, session, keeps_graph=False)

    def _create_session(
        self, source: Any, session: InferenceSession, *, keeps_graph: bool
    ) -> InferenceSession:
        """Return a session with the same settings that profiles."""
        change = partial(self._change_options, keeps_graph=keeps_graph)
        if isinstance(source, SessionFromOnnx):
            return source.create(change)
        model = getattr(session, "_model_path", None) or getattr(session, "_model_bytes", None)
        if not model:
            raise BackendError(
                "This session does not keep its model, so the model cannot be loaded again for"
                " profiling.",
                backend="onnxruntime",
                hint="Create it with SessionFromOnnx.",
            )
        options = session.get_session_options()
        change(options)
        with translate_errors("load"):
            inference_session: InferenceSession = onnxrt.InferenceSession(
                model,
                options,
                providers=session.get_providers(),
                provider_options=list(session.get_provider_options().values()),
                enable_fallback=0,
            )
        return inference_session

    def _change_options(self, options: SessionOptions, *, keeps_graph: bool) -> None:
        """Set the session options that write a trace and, optionally, the executed graph."""
        options.enable_profiling = True
        options.profile_file_prefix = str(self._folder / "trace")
        # Idle threads would take time from the runner whose turn is next.
        options.add_session_config_entry(_STOP_SPINNING, "1")
        if keeps_graph:
            options.optimized_model_filepath = str(self._folder / _GRAPH)
            options.add_session_config_entry(_WEIGHTS, "weights.data")

    def infer(self, feed_dict: Mapping[str, Any]) -> None:
        """Run the session once."""
        assert self._run is not None
        feed = {name: host_copy(name, array) for name, array in feed_dict.items()}
        with translate_errors("run"):
            self._run(self._names, feed)

    def finish(self, groups: Sequence[Sequence[int]]) -> list[ExecutionProfile]:
        """Return the profile of each group of runs, from the trace; see the port."""
        assert self._session is not None
        path = self._session.end_profiling()
        self._session = None
        graph = self._session_nodes()
        trace = read_trace(path)
        notes = list(trace.notes)
        if graph is None:
            notes.append("The executed graph is unknown: nodes are matched by name only.")
        version = f"ONNX Runtime {getattr(onnxrt, '__version__', '')}"
        profiles = []
        for group in groups:
            runs = [trace.runs[number] for number in group if number < len(trace.runs)]
            if not runs:
                raise BackendError("ONNX Runtime recorded no run.", backend="onnxruntime")
            profile = profile_runs(runs, graph, waits=os.environ.get(_BLOCKING) == "1")
            setting = f"{version}, {profile.setting}"
            profiles.append(evolve(profile, setting=setting, notes=[*notes, *profile.notes]))
        self.close()
        return profiles

    def _session_nodes(self) -> ModelNodes | None:
        """Return the nodes that the session executes; None if it did not save them."""
        path = self._folder / _GRAPH
        try:
            return model_nodes(str(path)) if path.exists() else None
        except PolygraphyException:
            return None

    def close(self) -> None:
        """Release the session, and delete the trace."""
        self._session = None
        self._run = None
        shutil.rmtree(self._folder, ignore_errors=True)
