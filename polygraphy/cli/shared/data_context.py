"""From options to the context of a program: which input data it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm

from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.shared.data import DataOptions
from polygraphy.codegen.scripts.data import Data

Shape = tuple[int, ...]

_ONLY_FIRST = "because the model is run on the first data only"


def data_of(
    options: DataOptions,
    shapes: Mapping[str, Sequence[Shape]] | None,
    usage: str,
    *,
    only_first: bool = False,
) -> Data:
    """Return where the data come from.

    Args:
        options: the options about data.
        shapes: the shapes given for each input.
        usage: the command, for messages.
        only_first: whether the command runs the model on the first iteration alone.

    Raises:
        CommandLineError: the data have two sources, or a function two names.
    """
    script = _script_of(options, usage)
    if options.load_inputs and script:
        message = (
            "--load-inputs and --data-loader-script exclude each other. Choose one source of data."
        )
        raise CommandLineError(message, usage)
    if options.load_inputs or script:
        _warn_about_unused(options, shapes)
        files = options.load_inputs
        if only_first and len(files) > 1:
            warn(f"--load-inputs {' '.join(files[1:])}: without effect, {_ONLY_FIRST}.")
            files = files[:1]
        return Data(load=files, script=script)
    turns = turns_of(shapes or {})
    if only_first and options.iterations is not None:
        warn(f"--iterations: without effect, {_ONLY_FIRST}.")
    if only_first and len(turns) > 1:
        warn(f"All shapes of an input but the first: without effect, {_ONLY_FIRST}.")
        turns = turns[:1]
    return Data(
        seed=options.seed,
        iterations=None if only_first else options.iterations,
        val_range=options.val_range,
        shapes=turns,
        backend_module=options.data_loader_backend_module,
    )


def _script_of(options: DataOptions, usage: str) -> tuple[str, str] | None:
    script, name = options.data_loader_script, options.data_loader_func_name
    if name is None:
        return script
    if script is None:
        message = "--data-loader-func-name needs --data-loader-script, the script that has it."
        raise CommandLineError(message, usage)
    if script[1] not in (name, "load_data"):
        raise CommandLineError(
            f"the data loader is called {script[1]!r} by --data-loader-script and {name!r} by"
            " --data-loader-func-name. Give one name.",
            usage,
        )
    return script[0], name


def _warn_about_unused(options: DataOptions, shapes: Mapping[str, Sequence[Shape]] | None) -> None:
    given = {
        "--seed": options.seed,
        "--iterations": options.iterations,
        "--val-range": options.val_range,
        "--data-loader-backend-module": options.data_loader_backend_module,
        "--input-shapes": shapes,
    }
    unused = [flag for flag, value in given.items() if value is not None]
    if unused:
        warn(f"{', '.join(unused)}: only used for generated data, but the data are given.")


def turns_of(shapes: Mapping[str, Sequence[Shape]]) -> tuple[dict[str, list[int]], ...]:
    """Return the shapes of each iteration until they repeat: every input takes its own in turn."""
    if not shapes:
        return ()
    length = lcm(*(len(listed) for listed in shapes.values()))
    return tuple(
        {name: list(listed[turn % len(listed)]) for name, listed in shapes.items()}
        for turn in range(length)
    )
