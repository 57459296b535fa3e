"""Whether `run` runs a model layer by layer, and what is saved of such a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.backends.built_in import Chosen, RunnerModel
from polygraphy.cli.backends.registry import able_in_parts
from polygraphy.cli.commands.run.run_backends import Backends
from polygraphy.cli.commands.run.whole import Run, one_after_the_other
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.compare import CompareOptions
from polygraphy.cli.shared.data import USUAL, data_step
from polygraphy.cli.shared.layerwise import LayerwiseOptions
from polygraphy.cli.shared.onnx import OnnxSaveOptions
from polygraphy.cli.shared.runners import OrderOptions, RunOptions
from polygraphy.codegen.call import Call, FunctionOfModel
from polygraphy.codegen.source import Source
from polygraphy.domain.tensors.naming import enumerated


def chosen_for_parts(values: Values, backends: Backends) -> list[tuple[Chosen, str]] | None:
    """Return the runners where the model is run layer by layer, each as it runs a part; None where
    it is run as a whole.

    Raises:
        CommandLineError: running it by layers is asked for where it is not possible.
    """
    budget = values[LayerwiseOptions].memory_budget
    obstacle = _obstacle(values, backends)
    if obstacle is not None:
        if budget is not None:
            raise CommandLineError(f"--memory-budget: {obstacle}")
        return None
    if budget is None and any(each.builds for each in backends.chosen.values()):
        return None
    parts = [(backends.chosen[name].of_parts, text) for name, text in backends.runners]
    return [(part, text) for part, text in parts if part is not None]


def by_layers(
    values: Values, backends: Backends, parts: Sequence[tuple[Chosen, str]], data: Call
) -> Run:
    """Return how a model is run layer by layer.

    Args:
        values: the options.
        backends: what runs it.
        parts: the runners, each as it runs a part.
        data: what makes the data loader.
    """
    part = RunnerModel(Source("model"), is_path=False, is_part=True)
    path, unmarked = RunnerModel.path, backends.onnx.without("modify_outputs")
    return Run(
        name=Source("make_runners"),
        runners=[FunctionOfModel(chosen.runner(part)) for chosen, _ in parts],
        after=data_step(data),
        call=call_of(
            "Comparator.run_layerwise",
            values,
            Source("make_runners"),
            path if unmarked.is_as_saved else unmarked.loader(path),
            *(() if data == USUAL else [Source("data_loader")]),
            exclude_outputs=backends.onnx.outputs.get("exclude_outputs"),
        ),
        is_lazy=True,
    )


def _obstacle(values: Values, backends: Backends) -> str | None:
    """Return why a model cannot be run layer by layer; None where it can."""
    able = able_in_parts()
    names = {name for name, _ in backends.runners}
    for stands_in_the_way, text in (
        (
            not backends.onnx.is_marked,
            "only matters where every tensor is compared. Add --mark-all or --onnx-outputs '*'.",
        ),
        (
            len(backends.runners) < 2 or bool(values[CompareOptions].load_outputs),
            "takes at least two runners, which are compared with each other and with no saved"
            " outputs.",
        ),
        (
            not able.keys() >= names,
            f"takes runners of an ONNX model, which are {enumerated(list(able.values()))}.",
        ),
        (
            values[RunOptions].save_outputs is not None,
            "the outputs are let go, so that --save-outputs has nothing to save. See --save-worst.",
        ),
        (
            one_after_the_other(values[OrderOptions]),
            "the runners take turns, unlike with --sequential-runners, --warm-up and"
            " --use-subprocess.",
        ),
        (
            values[OnnxSaveOptions].save_onnx is not None,
            "no model is run as a whole, so that --save-onnx has nothing to save.",
        ),
        (
            any(backends.chosen[name].of_parts is None for name in names),
            "each segment of layers becomes an engine of its own, which has no calibration,"
            " profiles, edits of the network, nor a file to be saved to.",
        ),
    ):
        if stands_in_the_way:
            return text
    return None


def check_worst(values: Values, *, compares: bool) -> None:
    """Refuse to save something about a comparison where there is none."""
    options = values[LayerwiseOptions]
    given = {
        "--save-worst": options.save_worst is not None,
        "--save-error-by-depth": options.save_error_by_depth is not None,
    }
    unusable = [flag for flag, is_given in given.items() if is_given]
    if unusable and not compares:
        raise CommandLineError(
            f"{' and '.join(unusable)}: there is no comparison. Choose a second runner, or load"
            " outputs with --load-outputs."
        )
