"""PyTorch."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltInBackend, RunnerModel
from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.onnx import OutputOptions
from polygraphy.codegen.source import Call, Name

_USUAL_FUNCTION = "load_model"


@option_group
class TorchOptions(Options):
    """PyTorch: how to run the model of --torch."""

    torch_compile: bool = option(
        "--torch-compile",
        feeds="PytRunner.compiled",
        help="Compile the model with torch.compile, which makes the first inference slow.",
    )
    torch_device: str | None = option(
        "--torch-device",
        feeds="PytRunner.device",
        kind=Text("DEVICE"),
        help="Device that runs the model, such as cuda or cuda:1.",
        otherwise="the device of the model",
    )


def _runner_call(values: Values, model: RunnerModel) -> Call:
    """Return the call that creates the PyTorch runner."""
    outputs = Name("polygraphy.constants", "MARK_ALL") if values[OutputOptions].mark_all else None
    return call_of("PytRunner", values, _loader(model.text), output_names=outputs)


def _loader(text: str) -> Call:
    """Return the call that loads a model: a function of a script (``script.py:function``), or a
    model file.
    """
    script, colon, function = text.rpartition(":")
    if colon and function.isidentifier() and script.lower().endswith(".py"):
        return Call("InvokeFromScript", [script, function])
    if text.lower().endswith(".py"):
        return Call("InvokeFromScript", [text, _USUAL_FUNCTION])
    return Call("TorchFromPath", [text])


def _program_call(text: str, device: str | None) -> Call:
    """Return the call that creates a PyTorch program for a diagnosis."""
    options = {} if device is None else {"device": device}
    return Call("TorchProgram", [_loader(text)], options)


BACKENDS = (
    BuiltInBackend(
        name="torch",
        title="PyTorch",
        help=(
            "Run a PyTorch model: the return value of a function in a script"
            " (script.py:load_model), an exported program (.pt2) or TorchScript (.pt)."
        ),
        text="MODEL",
        groups=lambda: (TorchOptions,),
        model_types=(),
        idle="nothing runs in PyTorch",
        marks_outputs=True,
        call=_runner_call,
        program=_program_call,
    ),
)
