"""PyTorch."""

from __future__ import annotations

from attrs import frozen

from polygraphy.cli.declare.backend import BuiltIn
from polygraphy.cli.declare.kinds import Flag, Text
from polygraphy.cli.declare.option import Options, option


@frozen
class TorchOptions(Options):
    """PyTorch: how it runs the model that --torch names."""

    torch_compile: bool = option(
        "--torch-compile",
        kind=Flag(),
        help="Compile the model with torch.compile; it takes its time in the first inference.",
    )
    torch_device: str | None = option(
        "--torch-device",
        kind=Text("DEVICE"),
        help="Where the model runs, such as cuda or cuda:1; where it was made unless given.",
    )


BACKENDS = (
    BuiltIn(
        name="torch",
        title="PyTorch",
        help=(
            "Run a PyTorch model: what a function in a script returns (script.py:load_model), an"
            " exported program (.pt2) or TorchScript (.pt)."
        ),
        text="MODEL",
        groups=(TorchOptions,),
        model_types=(),
        idle="nothing runs in PyTorch",
        marks_outputs=True,
    ),
)
