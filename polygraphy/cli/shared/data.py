"""Which input data."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.cli.declare.kinds import Choice, Integer, PerName, Range, Script, Text, Texts
from polygraphy.cli.declare.option import Options, option


@frozen
class DataOptions(Options):
    """Data Loader: the input data, generated or loaded."""

    seed: int | None = option(
        "--seed",
        kind=Integer(minimum=0),
        help="Seed of the first iteration's data; each further iteration adds one.",
        otherwise="1",
    )
    val_range: Any = option(
        "--val-range",
        kind=PerName(Range(), "INPUT"),
        help=(
            "Smallest and largest value of generated data, both inclusive, for all inputs or per"
            " input, as in --val-range [0,1] mask:[0,255]."
        ),
        otherwise="[0,1]",
    )
    iterations: int | None = option(
        "--iterations",
        "--iters",
        kind=Integer(minimum=1),
        help="How often the model is run, each time on other generated data.",
        otherwise="1",
    )
    data_loader_backend_module: str | None = option(
        "--data-loader-backend-module",
        kind=Choice("numpy", "torch"),
        help="The array library of generated data; the numbers are the same.",
        otherwise="numpy",
    )
    load_inputs: tuple[str, ...] = option(
        "--load-inputs",
        "--load-input-data",
        reads="File of input data",
        kind=Texts("PATH"),
        default=(),
        help=(
            "Load the input data from files or folders, one after another: as --save-inputs or"
            " --save-input-blob writes them, or ONNX test_data_set folders. Bare bytes (.bin, .raw)"
            " take data types and shapes from the model."
        ),
    )
    data_loader_script: tuple[str, str] | None = option(
        "--data-loader-script",
        reads="Script",
        kind=Script("load_data"),
        help=(
            "Take the input data from a Python script: from what its function load_data, or the one"
            " that is named, returns or yields, one dictionary from input names to arrays per"
            " iteration."
        ),
    )
    data_loader_func_name: str | None = option(
        "--data-loader-func-name",
        kind=Text("NAME"),
        help="Name of the function in --data-loader-script.",
    )
