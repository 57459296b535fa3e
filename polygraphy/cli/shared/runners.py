"""How the runners take turns, and what is kept of a run."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Integer, Number, Text
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class OrderOptions(Options):
    """Order: how the runners take turns."""

    sequential_runners: bool = option(
        "--sequential-runners",
        help="Run one runner after the other on all data, instead of all runners side by side, one"
        " iteration at a time. All results are kept in memory.",
    )
    warm_up: int | None = option(
        "--warm-up",
        "--warm-up-runs",
        kind=Integer(minimum=0),
        help="How often each runner runs the first iteration beforehand, untimed; runs one runner"
        " after the other.",
        feeds="Comparator.run.warm_up",
    )
    use_subprocess: bool = option(
        "--use-subprocess",
        help="Run each runner in a process of its own, one after the other: when one crashes, the"
        " others go on, and the exit code is 3.",
        feeds="Comparator.run.use_subprocess",
    )
    subprocess_timeout: float | None = option(
        "--subprocess-timeout",
        kind=Number(minimum=0),
        help="Seconds that each of these processes may take; then it is ended, as if it had"
        " crashed.",
        otherwise="no limit",
        feeds="Comparator.run.subprocess_timeout",
    )


@option_group
class RunOptions(Options):
    """Results: what is kept of a run."""

    save_inputs: str | None = option(
        "--save-inputs",
        "--save-input-data",
        writes=True,
        help="Save the input data: to one JSON file, or without file extension to a folder with"
        " one file per iteration; or as .safetensors.",
        feeds=("Comparator.run.save_inputs_path", "Comparator.run_layerwise.save_inputs_path"),
    )
    save_input_blob: str | None = option(
        "--save-input-blob",
        writes=True,
        kind=Text("FOLDER", nargs="?", without_word="."),
        help="Save the input data as bare bytes, to a folder for each iteration with one file per"
        " input; in the current folder, unless another one is named.",
        feeds=(
            "Comparator.run.save_input_blob_path",
            "Comparator.run_layerwise.save_input_blob_path",
        ),
    )
    save_outputs: str | None = option(
        "--save-outputs",
        "--save-results",
        writes=True,
        help="Save the outputs of all runners, in the same forms.",
        feeds=(
            "Comparator.run.save_outputs_path",
            "Comparator.compare_accuracy.add_to_outputs_path",
        ),
        constant="OUTPUTS",
    )
