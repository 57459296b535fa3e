"""Options for running: the order of runners, and the saved data of a run."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Choice, Integer, Number, OptionalInteger, Text
from polygraphy.cli.declare.option import Options, option, option_group

USUAL_RUNS, MOST_RUNS = 10, 50
"""Profiled runs, as `polygraphy.domain.profiling` has them."""
SORTS = ("time", "difference", "error")


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
        help="Number of untimed runs of the first iteration before each runner starts;"
        " runners then run one after another.",
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
class ProfileOptions(Options):
    """Profile: the time of each node, measured by the profiler of the backend."""

    profile: int | None = option(
        "--profile",
        kind=OptionalInteger(USUAL_RUNS, 1, MOST_RUNS),
        help="Profile N runs of each runner. Show the time of each node of the model, how the node"
        " ran, and its error if tensors are compared. For ONNX Runtime, OpenVINO and TensorRT.",
        otherwise="10 runs",
        feeds="ProfileNodes.runs",
    )
    sort: str | None = option(
        "--sort",
        needs="--profile",
        kind=Choice(*SORTS),
        help="Order of the rows of the profile.",
        otherwise="time",
        feeds="ProfileNodes.report.sort",
    )
    profile_rows: int | None = option(
        "--profile-rows",
        needs="--profile",
        kind=Integer(minimum=0),
        help="Number of rows of the profile to show; 0 for all.",
        otherwise="15",
        feeds="ProfileNodes.report.rows",
    )
    save_profile: str | None = option(
        "--save-profile",
        needs="--profile",
        writes=True,
        help="Save the profile and the executed graph as JSON, for inspect profile.",
        feeds="ProfileNodes.save.path",
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
