"""How a program gets and runs PyTorch models, in plain values."""

from __future__ import annotations

from attrs import frozen

_USUAL_FUNCTION = "load_model"


@frozen
class TorchModels:
    """How the models are run; None and False leave defaults alone.

    Attributes:
        compiled: whether they are compiled.
        device: where they run.
        mark_all: whether every tensor that they compute becomes an output.
    """

    compiled: bool = False
    device: str | None = None
    mark_all: bool = False

    @staticmethod
    def script_of(text: str) -> tuple[str, str] | None:
        """Return the script and the function in it that a text names, ``script.py:function`` or
        ``script.py``; None where the text is the path of a model.
        """
        script, colon, function = text.rpartition(":")
        if colon and function.isidentifier() and script.lower().endswith(".py"):
            return script, function
        return (text, _USUAL_FUNCTION) if text.lower().endswith(".py") else None
