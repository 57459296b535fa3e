"""TensorRT: engines that are built, and saved ones.

Few programs use it, and its options, and what turns them into calls, are large: they are imported
where it takes part.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from attrs import evolve

from polygraphy.cli.backends.built_in import (
    BackendUsage,
    BuiltInBackend,
    Conversion,
    Groups,
    Inspection,
    RunnerModel,
)
from polygraphy.cli.declare.option import Values, call_of
from polygraphy.codegen.source import Call, Source, Step, literal
from polygraphy.domain.catalog.formats import formats_of

if TYPE_CHECKING:
    from polygraphy.cli.backends.trt.model import TrtModel

_ENGINE, _SCRIPT = "engine", "trt-network-script"


def _groups() -> Groups:
    """Return the groups of options of `run`."""
    from polygraphy.cli.backends.trt.checks import BUILD_GROUPS, LOAD_GROUPS
    from polygraphy.cli.backends.trt.engine_options import TrtSaveOptions
    from polygraphy.cli.backends.trt.network_options import TrtPluginOptions

    return (*BUILD_GROUPS, TrtPluginOptions, TrtSaveOptions, *LOAD_GROUPS)


def _party_groups() -> Groups:
    """Return the groups of options of `diagnose`."""
    from polygraphy.cli.backends.trt.engine_options import TrtPartyOptions

    return (TrtPartyOptions,)


def _conversion() -> Conversion:
    """Return how `convert` uses TensorRT."""
    from polygraphy.cli.backends.trt.conversion import CONVERSION

    return CONVERSION


def _inspection() -> Inspection:
    """Return how `inspect model` uses TensorRT."""
    from polygraphy.cli.backends.trt.inspection import INSPECTION

    return INSPECTION


def _choose(values: Values, kind: str) -> BackendUsage:
    """Return how a program uses TensorRT: with a saved engine, or with one that it builds."""
    from polygraphy.cli.backends.trt.context import build_of, load_engine_model, runner_call_of

    runs = runner_call_of(values)
    if kind == _ENGINE:
        loaded = load_engine_model(values)
        return BackendUsage(runner=lambda model: runs.of(loaded.load_call(model.path)))
    engine = build_of(values, is_script=kind == _SCRIPT)
    engine = evolve(engine, save=_engine_path(values))
    marks = engine.network.changes_outputs
    chosen = _build_choice(engine, runs)
    unmarked = engine.without_marks if engine.may_build_twice else None
    of_parts = engine.without_mark_all
    return evolve(
        chosen,
        excluded=engine.network.exclude_outputs,
        marks=marks,
        unmarked_usage=(
            None if unmarked is None else _build_choice(unmarked, runs, is_unmarked=True)
        ),
        of_parts=_build_choice(of_parts, runs) if of_parts.is_brief else None,
    )


def _warn(values: Values, chosen: Collection[str], kind: str) -> None:
    """Log a warning about options without effect, because nothing is built or nothing runs."""
    from polygraphy.cli.backends.trt.checks import warn_about_groups

    loads = bool({"trt", "trt_engine"} & set(chosen))
    tftrt = "tf" in chosen  # TensorRT options also apply to its engines.
    if not (tftrt and loads):
        builds = "trt" in chosen and kind != _ENGINE
        because = "the engine is already built" if loads else "nothing runs in TensorRT: see --trt"
        warn_about_groups(values, builds=builds or tftrt, loads=loads or tftrt, because=because)


def _party_call(values: Values) -> Call:
    """Return the call that creates TensorRT as a backend of a diagnosis."""
    return call_of("TrtParty", values)


def _engine_path(values: Values) -> str | None:
    """Return the path of --save-engine; None if it is not set."""
    from polygraphy.cli.backends.trt.engine_options import TrtSaveOptions

    return values[TrtSaveOptions].save_engine


def _build_choice(engine: TrtModel, runs: Call, *, is_unmarked: bool = False) -> BackendUsage:
    """Return how a program uses an engine that it builds."""

    def steps(model: RunnerModel) -> list[Step]:
        """Return the statements that build the engine; empty if one expression does."""
        if engine.is_brief:
            return []
        unmarked_steps = engine.unmarked_steps if is_unmarked else engine.steps
        return unmarked_steps(model.source, is_path=model.is_path)

    def runner(model: RunnerModel) -> Call:
        """Return the call that creates the runner."""
        if engine.is_brief:
            return runs.of(engine.brief(model.source, is_path=model.is_path))
        return runs.of(Source("build_unmarked") if is_unmarked else engine.loader_name)

    return BackendUsage(runner=runner, steps=steps, needs_data=engine.needs_data, builds=True)


def _choose_saved(values: Values, kind: str) -> BackendUsage:
    """Return how a program uses a saved engine."""
    from polygraphy.cli.backends.trt.context import load_engine_model, runner_call_of

    runs, loaded = runner_call_of(values), load_engine_model(values)
    return BackendUsage(runner=lambda model: runs.of(loaded.load_call(literal(model.text))))


BACKENDS = (
    BuiltInBackend(
        name="trt",
        title="TensorRT",
        help=(
            "Run the model in TensorRT: build an engine from an ONNX model or a network script,"
            " or load MODEL if it is an engine."
        ),
        groups=_groups,
        model_types=formats_of("onnx", "tensorrt", "tensorflow"),
        runs_parts=True,
        modules=("polygraphy.backend.trt",),
        choose=_choose,
        party=_party_call,
        party_groups=_party_groups,
        warn=_warn,
        conversion=_conversion,
        inspection=_inspection,
    ),
    BuiltInBackend(
        name="trt_engine",
        title="TensorRT",
        help="Run a saved TensorRT engine, in addition to the runners of the model.",
        text="PATH",
        model_types=(),
        choose=_choose_saved,
    ),
)
