"""What declares a backend of this package."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from polygraphy.cli.declare.backend import Backend, flag_of
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.option import Options
from polygraphy.codegen.call import Call
from polygraphy.codegen.parts.plugged import RunnerModel


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
        party: returns the call that makes a party of a diagnosis; None where it cannot be one.
    """

    name: str
    groups: tuple[type[Options], ...] = ()
    text: str = ""
    idle: str = ""
    runs_parts: bool = False
    marks_outputs: bool = False
    modules: tuple[str, ...] = ()
    call: Callable[[Values, RunnerModel], Call] | None = None
    party: Callable[[Values], Call] | None = None

    @property
    def flag(self) -> str:
        """The flag that chooses it."""
        return flag_of(self.name)
