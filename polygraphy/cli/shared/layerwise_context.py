"""From options to the context of a program: whether it runs a model layer by layer, and how."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.shared.layerwise import LayerwiseOptions
from polygraphy.cli.shared.onnx import OnnxSaveOptions
from polygraphy.codegen.parts.layerwise import Layerwise
from polygraphy.codegen.scripts.script import RunScript


def with_layers(
    script: RunScript, values: Values, usage: str, able: Mapping[str, str]
) -> RunScript:
    """Return the program as one that runs the model layer by layer, where that is called for.

    Args:
        script: the program.
        values: the options.
        usage: the command, for messages.
        able: the backends that run any part of an ONNX model, and their flags.

    Raises:
        CommandLineError: it is asked for where it is not possible.
    """
    budget = values[LayerwiseOptions].memory_budget
    obstacle = _obstacle(script, values, able)
    if obstacle is None and (budget is not None or not script.builds_engine):
        return evolve(
            script,
            trt=script.trt.without_mark_all,
            layerwise=Layerwise(budget, unmarked=not values[LayerwiseOptions].no_unmarked),
        )
    if obstacle is not None and budget is not None:
        raise CommandLineError(f"--memory-budget: {obstacle}", usage)
    return evolve(script, also_unmarked=not values[LayerwiseOptions].no_unmarked)


def _obstacle(script: RunScript, values: Values, able: Mapping[str, str]) -> str | None:
    """Say why a model cannot be run layer by layer; None where it can."""
    paths = any(path for _, path in script.backends)
    for stands_in_the_way, text in (
        (
            not script.onnx.mark_all,
            "only matters where every tensor is compared. Add --mark-all or --onnx-outputs '*'.",
        ),
        (
            len(script.runners) < 2 or bool(script.comparison.load_outputs),
            "takes at least two runners, which are compared with each other and with no saved"
            " outputs.",
        ),
        (
            paths or not able.keys() >= set(script.runners),
            f"takes runners of an ONNX model, which are {_listed(list(able.values()))}.",
        ),
        (
            script.save_outputs is not None,
            "the outputs are let go, so that --save-outputs has nothing to save. See --save-worst.",
        ),
        (
            script.sequential,
            "the runners take turns, unlike with --sequential-runners, --warm-up and"
            " --use-subprocess.",
        ),
        (
            values[OnnxSaveOptions].save_onnx is not None,
            "no model is run as a whole, so that --save-onnx has nothing to save.",
        ),
        (
            (script.builds_engine and not script.trt.without_mark_all.is_brief)
            or script.trt.is_engine,
            "each stretch of layers becomes an engine of its own, which has no calibration,"
            " profiles, edits of the network, nor a file to be saved to.",
        ),
    ):
        if stands_in_the_way:
            return text
    return None


def _listed(flags: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(flags[:-1]), *flags[-1:])))


def check_worst(values: Values, script: RunScript, usage: str) -> None:
    """Refuse to save something about a comparison where there is none.

    Raises:
        CommandLineError: that was asked for.
    """
    options = values[LayerwiseOptions]
    given = {
        "--save-worst": options.save_worst is not None,
        "--save-error-by-depth": options.save_error_by_depth is not None,
    }
    unusable = [flag for flag, is_given in given.items() if is_given]
    if unusable and not script.compares:
        raise CommandLineError(
            f"{' and '.join(unusable)}: there is no comparison. Choose a second runner, or load"
            " outputs with --load-outputs.",
            usage,
        )


def written_by_layers(values: Values) -> list[tuple[str, str | None]]:
    """Return the files that are written, with the flags that name them."""
    options = values[LayerwiseOptions]
    worst = None if options.save_worst is None else options.save_worst[1] or "worst.safetensors"
    return [("--save-worst", worst), ("--save-error-by-depth", options.save_error_by_depth)]
