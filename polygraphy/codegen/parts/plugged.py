"""A backend of another package in a program, in plain values."""

from __future__ import annotations

from typing import Any

from attrs import frozen


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
