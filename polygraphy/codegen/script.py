"""What a `run` program is about, in plain values: the context of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from polygraphy.codegen.comparison import Comparison, SimpleFunction
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.onnx_model import OnnxModel
from polygraphy.codegen.render import render

__all__ = ["BACKEND_NAMES", "Comparison", "Data", "Log", "RunScript", "SimpleFunction"]

BACKEND_NAMES = {"onnxrt": "ONNX Runtime", "onnx": "the ONNX reference evaluator"}


@frozen
class Log:
    """How the program logs; empty values leave the defaults alone."""

    severities: Mapping[str, str] = Factory(dict)
    formats: Sequence[str] = ()
    file: str | None = None


@frozen
class Data:
    """Where the input data come from: saved ones (`load`), a script (path and symbol), or
    generated.

    `shapes` holds the shapes that inputs take in turn, one dictionary from names to shapes per
    turn.
    """

    load: Sequence[str] = ()
    script: tuple[str, str] | None = None
    seed: int | None = None
    iterations: int | None = None
    val_range: Any = None
    shapes: Sequence[Mapping[str, Sequence[int]]] = ()

    @property
    def is_default(self) -> bool:
        """Whether the default data loader does."""
        return self == Data()


@frozen
class RunScript:
    """A program that runs a model in some backends and compares what comes out."""

    command: Sequence[str]
    model: str | None = None
    runners: Sequence[str] = ()
    providers: Sequence[str] | None = None
    graph_optimization_level: str | None = None
    onnx: OnnxModel = OnnxModel()
    data: Data = Data()
    sequential: bool = False
    warm_up: int | None = None
    use_subprocess: bool = False
    save_inputs: str | None = None
    save_outputs: str | None = None
    comparison: Comparison = Comparison()
    log: Log = Log()

    @property
    def shares_onnx(self) -> bool:
        """Whether several runners use the ONNX model, so that it is loaded once, before them."""
        return len(self.runners) > 1

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
        backends = [BACKEND_NAMES[runner] for runner in self.runners]
        loaded = [quoted(path) for path in self.comparison.load_outputs]
        if not backends:
            return f"Compare the saved outputs {_listed(loaded)}."
        twice = [
            f"{name} (twice)" if backends.count(name) == 2 else name
            for name in dict.fromkeys(backends)
        ]
        where = f"{model} in {_listed(twice)}"
        if loaded:
            return f"Compare {where} with {_listed(loaded)}."
        return f"Compare {where}." if self.compares else f"Run {where}."

    def render(self) -> str:
        """Return the program."""
        return render("run.py.j2", self.summary, self.command, script=self)


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
