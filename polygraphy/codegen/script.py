"""What a `run` program is about, in plain values: the context of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from polygraphy.codegen.docstring import quoted
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
    """Where the input data come from: `load` if it is not empty, else they are generated."""

    load: Sequence[str] = ()
    seed: int | None = None
    iterations: int | None = None
    val_range: Any = None
    shapes: Mapping[str, Sequence[int]] = Factory(dict)

    @property
    def is_default(self) -> bool:
        """Whether the default data loader does."""
        return self == Data()


@frozen
class SimpleFunction:
    """Arguments of the comparison function `simple`; None leaves the default alone."""

    check_shapes: bool | None = None
    rtol: Any = None
    atol: Any = None
    fail_fast: bool | None = None
    check_error_stat: Any = None
    infinities_compare_equal: bool | None = None
    error_quantile: Any = None

    @property
    def is_default(self) -> bool:
        """Whether no argument is given."""
        return self == SimpleFunction()


@frozen
class Comparison:
    """What is compared and checked."""

    validate: bool = False
    fail_fast: bool = False
    load_outputs: Sequence[str] = ()
    simple: SimpleFunction = SimpleFunction()


@frozen
class RunScript:
    """A program that runs a model in some backends and compares what comes out."""

    command: Sequence[str]
    model: str | None = None
    runners: Sequence[str] = ()
    providers: Sequence[str] | None = None
    data: Data = Data()
    save_inputs: str | None = None
    save_outputs: str | None = None
    comparison: Comparison = Comparison()
    log: Log = Log()

    @property
    def compares(self) -> bool:
        """Whether there are at least two runs to compare; a loaded file may hold several."""
        loaded = len(self.comparison.load_outputs)
        return len(self.runners) + loaded > 1 or (not self.runners and loaded == 1)

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
