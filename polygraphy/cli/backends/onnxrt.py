"""ONNX Runtime."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltInBackend, RunnerModel
from polygraphy.cli.declare.kinds import (
    Choice,
    Integer,
    Texts,
)
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    option,
    option_group,
    with_values,
)
from polygraphy.cli.shared.providers import OnnxrtProviderOptions
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.formats import formats_of

_CPU = "cpu"
_LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")


@option_group
class OnnxrtOptions(OnnxrtProviderOptions):
    """ONNX Runtime Sessions: how ONNX Runtime runs the model."""

    graph_optimization_level: str | None = option(
        "--graph-optimization-level",
        kind=Choice(
            *_LEVELS,
            metavar="LEVEL",
            aliases={f"ORT_{level}": level for level in _LEVELS},
            in_any_case=True,
        ),
        help="Level of graph optimization in ONNX Runtime.",
        otherwise="chosen by ONNX Runtime",
        feeds=(
            "check_lint.graph_optimization_level",
            "SessionFromOnnx.graph_optimization_level",
            "OnnxrtParty.graph_optimization_level",
        ),
    )


@option_group
class OnnxrtModelOptions(Options):
    """ONNX Runtime, Whole Models: threads and optimizers."""

    threads: int | None = option(
        "--intra-op-threads",
        kind=Integer(minimum=1),
        help="Number of threads that compute one operator.",
        feeds=("SessionFromOnnx.threads", "OnnxrtParty.threads"),
        otherwise="the number of cores available to the process",
    )
    disabled_optimizers: tuple[str, ...] = option(
        "--disabled-optimizers",
        kind=Texts("NAME"),
        help="Graph optimizers that ONNX Runtime skips, as in --disabled-optimizers"
        " LayerNormFusion. `polygraphy diagnose` names an optimizer that is at fault.",
        feeds=("SessionFromOnnx.disabled_optimizers", "OnnxrtParty.disabled_optimizers"),
    )


def _runner_call(values: Values, model: RunnerModel) -> Call:
    """Return the call that creates the ONNX Runtime runner."""
    # Sessions are created and released often, and would keep memory.
    arena = False if model.is_part else None
    session = call_of("SessionFromOnnx", values, model.source, memory_arena=arena)
    return Call("OnnxrtRunner", [session])


def _party_call(values: Values) -> Call:
    """Return the call that creates ONNX Runtime as a backend of a diagnosis."""
    return call_of("OnnxrtParty", values)


def _baseline_call(values: Values) -> Call | None:
    """Return the call that creates ONNX Runtime on the CPU for comparison, or None.
    The result is None if the model runs there anyway.
    """
    options = values[OnnxrtOptions]
    names = [
        provider if isinstance(provider, str) else provider[0]
        for provider in options.providers or ()
    ]
    if all(name.lower().startswith(_CPU) for name in names):
        return None
    on_cpu = with_values(options, providers=(_CPU,), provider_libraries=None)
    return call_of("OnnxrtParty", values.replace_groups(on_cpu)).of(name=_CPU)


BACKENDS = (
    BuiltInBackend(
        name="onnxrt",
        title="ONNX Runtime",
        help="Run the model in ONNX Runtime.",
        groups=lambda: (OnnxrtOptions, OnnxrtModelOptions),
        model_types=formats_of("onnx", "tensorflow"),
        idle="nothing runs in ONNX Runtime: see --onnxrt",
        runs_parts=True,
        rewrites=True,
        call=_runner_call,
        party=_party_call,
        baseline=_baseline_call,
        modules=("onnxruntime", "polygraphy.backend.onnxrt"),
    ),
)
