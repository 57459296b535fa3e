"""What a program needs to know of backends that bring their own runners, in plain values."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.codegen.source import Source


@frozen
class RunnerModel:
    """What a runner runs.

    Attributes:
        source: the expression for the model.
        is_path: whether that is the path of a file; else an ONNX model, or a loader of one.
        text: what the runner's flag names, for one that has a model of its own.
    """

    source: Source
    is_path: bool
    text: str = ""


@frozen
class PluggedRunner:
    """What a program needs to know of such a backend.

    Attributes:
        partial: the text of its template, which has the macro ``runner(options, model, is_path)``.
        options: the values of its own options; None if it has none.
        loads_onnx: whether what it runs is an ONNX model.
    """

    partial: str
    options: Any = None
    loads_onnx: bool = True
