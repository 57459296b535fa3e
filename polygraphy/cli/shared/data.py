"""Options for input data, and the calls that create them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any

from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.kinds import (
    Choice,
    Integer,
    PerName,
    Preprocessing,
    Range,
    Script,
    Text,
)
from polygraphy.cli.declare.option import (
    Options,
    call_of,
    non_default_flags_for_calls,
    option,
    option_group,
)
from polygraphy.codegen.source import Call, Metadata, Source, Step

Shape = tuple[int, ...]

USUAL = Call("DataLoader")
"""The call that creates the data by default."""

_ONLY_FIRST = "because only the first input set is used"
_NOTE = Source("Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.")
"""The comment for generated data that calibrate."""


@option_group
class DataOptions(Options):
    """Data Loader: the input data, generated or loaded."""

    seed: int | None = option(
        "--seed",
        feeds="DataLoader.seed",
        kind=Integer(minimum=0),
        help="Seed for the data of the first iteration; each further iteration adds one.",
        otherwise="1",
    )
    val_range: Any = option(
        "--val-range",
        feeds="DataLoader.val_range",
        kind=PerName(Range(), "INPUT"),
        help="Smallest and largest generated values, both inclusive, for all inputs or per"
        " input, as in --val-range 0,1 mask:0,255.",
        otherwise="[0,1]",
    )
    iterations: int | None = option(
        "--iterations",
        "--iters",
        feeds="DataLoader.iterations",
        kind=Integer(minimum=0),
        help="Number of times to run the model, each time on different generated data. With 0,"
        " run only creates and saves the models.",
        otherwise="1",
    )
    data_loader_backend_module: str | None = option(
        "--data-loader-backend-module",
        feeds="DataLoader.data_loader_backend_module",
        kind=Choice("numpy", "torch"),
        help="Array library of generated data; the values do not depend on this choice.",
        otherwise="numpy",
    )
    load_inputs: tuple[str, ...] = option(
        "--load-inputs",
        "--load-input-data",
        reads="File of input data",
        feeds="StreamingDataLoader.paths",
        help="Load input data from files or folders, in order. Supported: files that --save-inputs"
        " or --save-input-blob wrote, ONNX test_data_set folders, .npy, .npz, .safetensors, .pt,"
        " and images or folders of images, one image per iteration. Raw bytes (.bin, .raw) use the"
        " data types and shapes of the model.",
    )
    preprocess: Mapping[str, Any] | None = option(
        "--preprocess",
        kind=Preprocessing(),
        needs="--load-inputs",
        help="Preprocessing of images (.png, .jpg, ...; Pillow reads them upright and as RGB),"
        " in this order: resize=WIDTHxHEIGHT, scale=NUMBER, mean=R:G:B, std=R:G:B, layout=nchw,"
        " as in --preprocess scale=1/255 mean=0.485:0.456:0.406 std=0.229:0.224:0.225 layout=nchw.",
        feeds="StreamingDataLoader.preprocess",
    )
    data_loader_script: tuple[str, str] | None = option(
        "--data-loader-script",
        reads="Script",
        kind=Script("load_data"),
        excludes="--load-inputs",
        help="Python script with a function that loads the input data. The function returns or"
        " yields one dictionary from input names to arrays per iteration, and ends after the last.",
        otherwise="load_data",
    )
    data_loader_func_name: str | None = option(
        "--data-loader-func-name",
        kind=Text("NAME"),
        help="Name of the function in --data-loader-script.",
    )


def data_of(
    options: DataOptions, shapes: Mapping[str, Sequence[Shape]] | None, *, only_first: bool = False
) -> Call:
    """Return the call that creates the data loader; without arguments for the default.

    Args:
        options: the options about data.
        shapes: the shapes given for each input.
        only_first: whether the command runs the model on the first iteration alone.

    Raises:
        CommandLineError: a function has two names.
    """
    script = _loader_script(options)
    if options.load_inputs or script:
        _warn_about_unused(options, shapes)
        if script:
            return Call("InvokeFromScript", script[:1], {"name": script[1]})
        files = list(options.load_inputs)
        if only_first and len(files) > 1:
            warn(f"--load-inputs {' '.join(files[1:])}: has no effect, {_ONLY_FIRST}.")
            files = files[:1]
        return Call("StreamingDataLoader", [files], {"preprocess": options.preprocess})
    turns = shapes_by_iteration(shapes or {})
    if only_first and options.iterations is not None:
        warn(f"--iterations: has no effect, {_ONLY_FIRST}.")
    if only_first and len(turns) > 1:
        warn("If an input has several shapes, only the first one is used.")
        turns = turns[:1]
    metadata = [Metadata([(name, shape, None) for name, shape in turn.items()]) for turn in turns]
    decided = {"iterations": None} if only_first else {}
    return call_of(
        "DataLoader",
        (options,),
        input_metadata=metadata[0] if len(metadata) == 1 else metadata or None,
        **decided,
    )


def data_loader_argument(data: Call) -> Call | None:
    """Return the call that creates the data loader; None for the default."""
    return None if data == USUAL else data


def data_step(data: Call, *, calibrates: bool = False) -> list[Step]:
    """Return the statement that creates the data loader, if one is needed."""
    if data == USUAL and not calibrates:
        return []
    return [
        Step("data_loader", data, _NOTE if calibrates and data.name == USUAL.name else Source())
    ]


def _loader_script(options: DataOptions) -> tuple[str, str] | None:
    """Return the path and the function of the data loader script; None without a script."""
    script, name = options.data_loader_script, options.data_loader_func_name
    if name is None:
        return script
    if script is None:
        message = "--data-loader-func-name requires --data-loader-script."
        raise CommandLineError(message)
    if script[1] not in (name, "load_data"):
        raise CommandLineError(
            f"--data-loader-script selects the function {script[1]!r}, but"
            f" --data-loader-func-name selects {name!r}. Use one of them."
        )
    return script[0], name


def _warn_about_unused(options: DataOptions, shapes: Mapping[str, Sequence[Shape]] | None) -> None:
    """Log warnings about options for generated data, because the data are loaded."""
    unused = non_default_flags_for_calls((options,), ["DataLoader"])
    if shapes is not None:
        unused.append("--input-shapes")
    if unused:
        warn(f"{', '.join(unused)}: only used for generated data, but the data is loaded.")


def shapes_by_iteration(shapes: Mapping[str, Sequence[Shape]]) -> tuple[dict[str, list[int]], ...]:
    """Return the shapes of each iteration until they repeat."""
    if not shapes:
        return ()
    length = lcm(*(len(listed) for listed in shapes.values()))
    return tuple(
        {name: list(listed[turn % len(listed)]) for name, listed in shapes.items()}
        for turn in range(length)
    )
