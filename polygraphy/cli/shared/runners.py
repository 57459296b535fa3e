"""How the runners take turns, and what is kept of a run."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Integer, Number, Text
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class OrderOptions(Options):
    """Order: order and isolation of the runners."""

    sequential_runners: bool = option(
        "--sequential-runners",
        help="Run one runner after another on all data, and keep all results in memory. By"
        " default, all runners run one iteration at a time.",
    )
    warm_up: int | None = option(
        "--warm-up",
        "--warm-up-runs",
        kind=Integer(minimum=0),
        help="Number of untimed runs of the first iteration before each runner starts; implies"
        " one runner after another.",
        feeds="Comparator.run.warm_up",
    )
    use_subprocess: bool = option(
        "--use-subprocess",
        help="Run each runner in its own process, one after another. If one crashes, the others"
        " continue, and the exit code is 3.",
        feeds="Comparator.run.use_subprocess",
    )
    subprocess_timeout: float | None = option(
        "--subprocess-timeout",
        kind=Number(minimum=0),
        help="Time limit for each of these processes, in seconds. A process that runs longer is"
        " stopped and counts as a crash.",
        otherwise="no limit",
        feeds="Comparator.run.subprocess_timeout",
    )


@option_group
class RunOptions(Options):
    """Results: data to save."""

    save_inputs: str | None = option(
        "--save-inputs",
        "--save-input-data",
        writes=True,
        help="Save the input data to one JSON or .safetensors file, or (without a file"
        " extension) to a folder with one file per iteration.",
        feeds=("Comparator.run.save_inputs_path", "Comparator.run_layerwise.save_inputs_path"),
    )
    save_input_blob: str | None = option(
        "--save-input-blob",
        writes=True,
        kind=Text("FOLDER", nargs="?", without_word="."),
        help="Save the input data as raw bytes, to a folder for each iteration with one file"
        " per input.",
        otherwise="in the current folder",
        feeds=(
            "Comparator.run.save_input_blob_path",
            "Comparator.run_layerwise.save_input_blob_path",
        ),
    )
    save_outputs: str | None = option(
        "--save-outputs",
        "--save-results",
        writes=True,
        help="Save the outputs of all runners to one JSON or .safetensors file, or (without a"
        " file extension) to a folder with one file per iteration.",
        feeds=(
            "Comparator.run.save_outputs_path",
            "Comparator.compare_accuracy.add_to_outputs_path",
        ),
        constant="OUTPUTS",
    )
