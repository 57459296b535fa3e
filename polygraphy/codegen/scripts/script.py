"""What a `run` program is about, in plain values: the context of its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import Factory, evolve, frozen

from polygraphy.codegen.call import Call
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.parts.comparison import Comparison, SimpleFunction
from polygraphy.codegen.parts.layerwise import Layerwise
from polygraphy.codegen.parts.log import Log
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.parts.plugged import PluggedRunner, RunnerModel
from polygraphy.codegen.parts.tf_graph import TfGraph
from polygraphy.codegen.parts.trt_model import TrtModel
from polygraphy.codegen.render import render
from polygraphy.codegen.scripts.data import Data
from polygraphy.codegen.source import Source

__all__ = ["Comparison", "RunScript", "SimpleFunction"]

_SAVED_ENGINE = "trt_engine"


@frozen
class RunScript:
    """A program that runs a model in some backends and compares what comes out.

    `runners` holds the name of each backend; a saved engine is ``trt_engine:`` and its path, a
    PyTorch model ``torch:`` and its path, or a script and the function in it. `titles` says what
    people call the backends, `calls` how those runners are made that have no partial, and `plugged`
    more about those of other packages.
    """

    command: Sequence[str]
    model: str | None = None
    runners: Sequence[str] = ()
    titles: Mapping[str, str] = Factory(dict)
    calls: Mapping[str, Callable[[RunnerModel], Call]] = Factory(dict)
    providers: Sequence[Any] | None = None
    graph_optimization_level: str | None = None
    threads: int | None = None
    onnx: OnnxModel = OnnxModel()
    trt: TrtModel = TrtModel()
    tf: TfGraph = TfGraph()
    data: Data = Data()
    sequential: bool = False
    warm_up: int | None = None
    use_subprocess: bool = False
    subprocess_timeout: float | None = None
    save_inputs: str | None = None
    save_outputs: str | None = None
    save_input_blob: str | None = None
    comparison: Comparison = Comparison()
    log: Log = Log()
    plugged: Mapping[str, PluggedRunner] = Factory(dict)
    layerwise: Layerwise | None = None
    also_unmarked: bool = False
    is_unmarked: bool = False

    @property
    def backends(self) -> list[tuple[str, str]]:
        """The name of each runner's backend, and the path that it runs if that is not the
        model's.
        """
        return [(name, path) for name, _, path in (each.partition(":") for each in self.runners)]

    @property
    def uses_model(self) -> bool:
        """Whether a runner runs the model, rather than one of its own."""
        return any(not path for _, path in self.backends)

    @property
    def builds_engine(self) -> bool:
        """Whether a TensorRT engine is built."""
        return "trt" in self.runners and not self.trt.is_engine

    @property
    def builds_in_steps(self) -> bool:
        """Whether that takes statements of its own."""
        return self.builds_engine and not self.trt.is_brief

    @property
    def calibrates(self) -> bool:
        """Whether the engine's build needs the input data."""
        return self.builds_engine and self.trt.calibrates

    @property
    def shares_onnx(self) -> bool:
        """Whether several runners use the ONNX model, so that it is loaded once, before them."""
        others = {name for name, plugged in self.plugged.items() if not plugged.loads_onnx}
        takers = [name for name, path in self.backends if not path and name not in ("tf", *others)]
        return len(takers) > 1

    def call(self, backend: str, model: Source, text: str) -> Call:
        """The runner of a backend that is among `calls`; `model` is the expression for the model,
        `text` what the runner's flag names.
        """
        return self.calls[backend](RunnerModel(model, self.onnx.is_as_saved, text))

    @property
    def unmarked_onnx(self) -> OnnxModel:
        """How the ONNX model comes to be, but for its outputs."""
        return evolve(self.onnx, mark_all=False, outputs=(), mark_types=(), exclude_outputs=())

    @property
    def unmarked(self) -> RunScript:
        """What the model's own outputs are computed by: the same with nothing marked."""
        return evolve(
            self,
            onnx=evolve(self.unmarked_onnx, save=None, external_data_path=None),
            trt=self.trt.unmarked,
            is_unmarked=True,
        )

    @property
    def builds_unmarked_in_steps(self) -> bool:
        """Whether the engine with nothing marked takes statements of its own."""
        return (
            self.runs_unmarked("trt") and not self.unmarked.trt.is_brief and "trt" in self.runners
        )

    def runs_unmarked(self, backend: str) -> bool:
        """Whether a runner of a backend, whose tensors are marked, is joined by one of the model as
        it is.
        """
        if not self.also_unmarked or not self._is_looked_at:
            return False
        marks = self.onnx.changes_outputs
        if backend == "trt":
            return (
                self.builds_engine
                and self.trt.may_build_twice
                and (marks or self.trt.network.changes_outputs)
            )
        return marks and backend == "onnxrt"  # The evaluator rewrites nothing.

    @property
    def joins_unmarked(self) -> bool:
        """Whether any runner is."""
        return any(self.runs_unmarked(backend) for backend, _ in self.backends)

    @property
    def _is_looked_at(self) -> bool:
        return self.compares or self.save_outputs is not None or self.comparison.validate

    @property
    def excluded_outputs(self) -> list[str]:
        """The outputs that are compared in no runner."""
        names = (*self.onnx.exclude_outputs, *self.trt.network.exclude_outputs)
        return list(dict.fromkeys(names))

    @property
    def compares(self) -> bool:
        """Whether there are at least two runs to compare; a loaded file may hold several."""
        loaded = len(self.comparison.load_outputs)
        return len(self.runners) + loaded > 1 or (not self.runners and loaded == 1)

    @property
    def uses_results(self) -> bool:
        """Whether something is done with the results; runners that stream only run when asked."""
        checked = self.comparison.validate or self.comparison.postprocess is not None
        return self.compares or checked or not self.sequential

    @property
    def summary(self) -> str:
        """What the program does, in a sentence."""
        model = (
            quoted((self.model or "").replace("\\", "/").rpartition("/")[2]) if self.model else ""
        )
        backends = [self.titles[name] for name, _ in self.backends if name != _SAVED_ENGINE]
        engines = [quoted(path) for name, path in self.backends if name == _SAVED_ENGINE]
        loaded = [quoted(path) for path in self.comparison.load_outputs]
        if not backends and engines:
            model, backends = _listed(engines), [self.titles[_SAVED_ENGINE]]
            engines = []
        elif not model:
            model = _listed([quoted(path) for name, path in self.backends if path])
        if not backends:
            return f"Compare the saved outputs {_listed(loaded)}."
        twice = [
            f"{name} (twice)" if backends.count(name) == 2 else name
            for name in dict.fromkeys(backends)
        ]
        where = f"{model} in {_listed(twice)}"
        if loaded or engines:
            return f"Compare {where} with {_listed([*engines, *loaded])}."
        return f"Compare {where}." if self.compares else f"Run {where}."

    def render(self) -> str:
        """Return the program."""
        partials = {f"runners/{name}.py.j2": each.partial for name, each in self.plugged.items()}
        return render("run.py.j2", self.summary, self.command, partials, script=self)


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
