"""What is declared to add a backend to the command line."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from polygraphy.cli.declare.option import Options


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


def flag_of(name: str) -> str:
    """Return the flag that chooses a backend."""
    return f"--{name.replace('_', '-')}"
