"""What is declared to add a backend to the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.option import Options
from polygraphy.codegen.call import Call
from polygraphy.codegen.parts.plugged import RunnerModel


def _ends_with_a_full_stop(instance: Backend, attribute: Any, text: str) -> None:
    if not text.endswith("."):
        raise ValueError(f"the help of a backend is a sentence, which {text!r} is not")


@frozen(kw_only=True)
class Backend:
    """A backend of another package.

    A package names an object of this class in its entry-point group ``polygraphy.backends``; the
    name of the entry point is that of the backend: ``mine`` is run by ``polygraphy run --mine``.

    Attributes:
        title: what people call the backend, as in "Compare model.onnx in ONNX Runtime and Mine".
        help: what the backend does, in a sentence.
        options: the group of its own options, if it has any.
        runner: the class or function that makes the runner, as in ``my_package:MyRunner``: a
            program calls it with the model, and with the options that were given, by the names of
            their fields. The model is the path of a file, an ONNX model, or a loader of one.
        partial: where a call is not enough, the file beside the module of the entry point that says
            how a program makes the runner: a Jinja2 template with the macro ``runner(options,
            model, is_path)``. It gets the values of `options` (None without), the expression for
            the model, and whether that is the path of a file; else it is an ONNX model, or a loader
            of one.
        model_types: the types of models that it runs, as `--model-type` calls them; empty for any,
            which then reach it as a path.
    """

    title: str
    help: str = field(validator=_ends_with_a_full_stop)
    options: type[Options] | None = None
    runner: str = ""
    partial: str = "runner.py.j2"
    model_types: tuple[str, ...] = ("onnx",)


@frozen(kw_only=True)
class BuiltIn(Backend):
    """A backend of this package: a module of `polygraphy.cli.backends` declares it.

    Attributes:
        name: what programs and templates call it.
        groups: the groups of its own options.
        text: what the text after its flag is called; such a backend runs what the text names, and
            the others the model of the command line.
        idle: why its options have no effect where it is not chosen; empty if others use them, too.
        runs_parts: whether it runs any part of an ONNX model, so that layers can take turns.
        marks_outputs: whether it makes tensors outputs by itself, without an ONNX model.
        modules: what it imports that a process which forks later may have imported.
        call: returns the call that makes its runner, from the options and the model; None where a
            partial among the templates writes it.
    """

    name: str
    groups: tuple[type[Options], ...] = ()
    text: str = ""
    idle: str = ""
    runs_parts: bool = False
    marks_outputs: bool = False
    modules: tuple[str, ...] = ()
    call: Callable[[Values, RunnerModel], Call] | None = None

    @property
    def flag(self) -> str:
        """The flag that chooses it."""
        return flag_of(self.name)


def flag_of(name: str) -> str:
    """Return the flag that chooses a backend."""
    return f"--{name.replace('_', '-')}"
