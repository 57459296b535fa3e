"""OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.built_in import BuiltInBackend, RunnerModel
from polygraphy.cli.declare.kinds import Assignments, Choice, Integer, Text, Texts
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.formats import formats_of


@option_group
class OpenvinoOptions(Options):
    """OpenVINO: how to compile the model."""

    openvino_device: str | None = option(
        "--openvino-device",
        kind=Text("DEVICE"),
        feeds=("CompiledModelFromOnnx.device", "OpenvinoParty.device"),
        help="Device that runs the model, such as GPU, NPU or AUTO:GPU,CPU.",
        otherwise="CPU",
    )
    openvino_precision: str | None = option(
        "--openvino-precision",
        kind=Choice("f32", "bf16", "f16"),
        feeds=("CompiledModelFromOnnx.precision_hint", "OpenvinoParty.precision_hint"),
        help="Precision in which OpenVINO computes, if the device supports it.",
        otherwise="chosen by OpenVINO: bf16 on some CPUs, with a note",
    )
    openvino_threads: int | None = option(
        "--openvino-threads",
        kind=Integer(minimum=1),
        feeds=("CompiledModelFromOnnx.threads", "OpenvinoParty.threads"),
        help="Number of threads that compute the model.",
        otherwise="chosen by OpenVINO",
    )
    openvino_properties: Mapping[str, str] | None = option(
        "--openvino-properties",
        kind=Assignments("NAME=VALUE", "PERFORMANCE_HINT=LATENCY"),
        feeds=("CompiledModelFromOnnx.properties", "OpenvinoParty.properties"),
        help="Additional OpenVINO properties, by their names in OpenVINO.",
    )
    openvino_float32: tuple[str, ...] = option(
        "--openvino-float32",
        kind=Texts("TENSOR"),
        feeds=("CompiledModelFromOnnx.float32_tensors", "OpenvinoParty.float32_tensors"),
        help="Tensors of the model to compute in fp32, regardless of the precision of the others."
        " `polygraphy diagnose` names these tensors.",
    )
    no_openvino_fusion: bool = option(
        "--no-openvino-fusion",
        as_=False,
        feeds=("CompiledModelFromOnnx.fuse", "OpenvinoParty.fuse"),
        help="Disable operator fusion and keep every tensor; slower, and uses more memory.",
    )


@option_group
class OpenvinoCacheOptions(Options):
    """OpenVINO Cache: storage of compiled models."""

    openvino_cache: str | None = option(
        "--openvino-cache",
        kind=Text("DIR"),
        feeds="CompiledModelFromOnnx.cache_dir",
        help="Folder in which compiled models are cached.",
    )


def _runner_call(values: Values, model: RunnerModel) -> Call:
    """Return the call that creates the OpenVINO runner."""
    return Call("OpenvinoRunner", [call_of("CompiledModelFromOnnx", values, model.source)])


def _party_call(values: Values) -> Call:
    """Return the call that creates OpenVINO as a backend of a diagnosis."""
    return call_of("OpenvinoParty", values)


BACKENDS = (
    BuiltInBackend(
        name="openvino",
        title="OpenVINO",
        help="Run the model in OpenVINO.",
        groups=lambda: (OpenvinoOptions, OpenvinoCacheOptions),
        model_types=formats_of("onnx", "tensorflow"),
        idle="nothing runs in OpenVINO: see --openvino",
        runs_parts=True,
        rewrites=True,
        call=_runner_call,
        party=_party_call,
        party_groups=lambda: (OpenvinoOptions,),
        modules=("openvino", "polygraphy.backend.openvino"),
    ),
)
