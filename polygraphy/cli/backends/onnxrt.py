"""ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.built_in import BuiltIn, RunnerModel
from polygraphy.cli.declare.kinds import (
    Assignments,
    Choice,
    Integer,
    Provider,
    Providers,
    Texts,
)
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.formats import formats_of

_LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")


@option_group
class OnnxrtOptions(Options):
    """ONNX Runtime Sessions: how ONNX Runtime runs the model."""

    providers: tuple[Provider, ...] | None = option(
        "--providers",
        "--execution-providers",
        kind=Providers(),
        help="Execution providers in order of priority, by name or by a unique part of it, perhaps"
        " with their options.",
        otherwise="cpu",
        feeds=("check_lint.providers", "SessionFromOnnx.providers", "OnnxrtParty.providers"),
    )
    provider_libraries: Mapping[str, str] | None = option(
        "--provider-library",
        kind=Assignments("NAME=LIBRARY", "openvino=onnxruntime_ep_openvino"),
        needs="--providers",
        help="Plugins of ONNX Runtime with further execution providers, which --providers calls"
        " NAME: paths of libraries, or modules that tell them. Of several devices"
        " --providers NAME:device=GPU takes one.",
        feeds=(
            "check_lint.provider_libraries",
            "SessionFromOnnx.provider_libraries",
            "OnnxrtParty.provider_libraries",
        ),
    )
    graph_optimization_level: str | None = option(
        "--graph-optimization-level",
        kind=Choice(
            *_LEVELS,
            metavar="LEVEL",
            aliases={f"ORT_{level}": level for level in _LEVELS},
            in_any_case=True,
        ),
        help="How much ONNX Runtime optimises the model.",
        otherwise="as ONNX Runtime decides",
        feeds=(
            "check_lint.graph_optimization_level",
            "SessionFromOnnx.graph_optimization_level",
            "OnnxrtParty.graph_optimization_level",
        ),
    )


@option_group
class OnnxrtModelOptions(Options):
    """ONNX Runtime, Whole Models: on how many cores it runs one, and what it does not rewrite."""

    threads: int | None = option(
        "--intra-op-threads",
        kind=Integer(minimum=1),
        help="How many threads compute an operator of the model.",
        feeds=("SessionFromOnnx.threads", "OnnxrtParty.threads"),
        otherwise="as many as the process may use cores",
    )
    disabled_optimizers: tuple[str, ...] = option(
        "--disabled-optimizers",
        kind=Texts("NAME"),
        help="Rewrites of the graph that ONNX Runtime leaves out, as in --disabled-optimizers"
        " LayerNormFusion: `polygraphy diagnose` names one that is at fault.",
        feeds=("SessionFromOnnx.disabled_optimizers", "OnnxrtParty.disabled_optimizers"),
    )


def _runner(values: Values, model: RunnerModel) -> Call:
    arena = False if model.is_part else None  # Sessions come and go, and would keep memory.
    session = call_of("SessionFromOnnx", values, model.source, memory_arena=arena)
    return Call("OnnxrtRunner", [session])


def _party(values: Values) -> Call:
    return call_of("OnnxrtParty", values)


BACKENDS = (
    BuiltIn(
        name="onnxrt",
        title="ONNX Runtime",
        help="Run the model in ONNX Runtime.",
        groups=lambda: (OnnxrtOptions, OnnxrtModelOptions),
        model_types=formats_of("onnx", "tensorflow"),
        idle="nothing runs in ONNX Runtime: see --onnxrt",
        runs_parts=True,
        rewrites=True,
        call=_runner,
        party=_party,
        modules=("onnxruntime", "polygraphy.backend.onnxrt"),
    ),
)
