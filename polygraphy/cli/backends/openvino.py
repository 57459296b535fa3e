"""OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polygraphy.cli.backends.built_in import BuiltIn, RunnerModel
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Choice, Integer, Kind, Text, Texts
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.declare.values import Values
from polygraphy.codegen.call import Call
from polygraphy.domain.catalog.formats import formats_of


class _Properties(Kind):
    """Properties of OpenVINO: ``NAME=VALUE``, several times."""

    nargs = "+"
    metavar = "NAME=VALUE"

    def parse(self, words: Sequence[str]) -> Mapping[str, str]:
        """Return the values by name."""
        made: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not name or not equals:
                raise BadValue(f"{word!r} is no property, as in PERFORMANCE_HINT=LATENCY")
            if name in made:
                raise BadValue(f"there are two values for {name!r}")
            made[name] = value
        return made

    def unparse(self, value: Mapping[str, str]) -> list[str]:
        """Return one word per property."""
        return [f"{name}={text}" for name, text in value.items()]


_MAKERS = ("CompiledModelFromOnnx",)


def _of_both(argument: str) -> tuple[str, ...]:
    return tuple(f"{maker}.{argument}" for maker in _MAKERS)


@option_group
class OpenvinoOptions(Options):
    """OpenVINO: how it compiles the model."""

    openvino_device: str | None = option(
        "--openvino-device",
        kind=Text("DEVICE"),
        feeds=_of_both("device"),
        help="Where the model runs, such as GPU, NPU or AUTO:GPU,CPU.",
        otherwise="CPU",
    )
    openvino_precision: str | None = option(
        "--openvino-precision",
        kind=Choice("f32", "bf16", "f16"),
        feeds=_of_both("precision_hint"),
        help="What OpenVINO computes in, where the device can.",
        otherwise="as OpenVINO decides: bf16 on some processors, which is said",
    )
    openvino_threads: int | None = option(
        "--openvino-threads",
        kind=Integer(minimum=1),
        feeds=_of_both("threads"),
        help="How many threads compute the model.",
        otherwise="as OpenVINO decides",
    )
    openvino_cache: str | None = option(
        "--openvino-cache",
        kind=Text("DIR"),
        feeds="CompiledModelFromOnnx.cache_dir",
        help="A folder where compiled models are kept, and from which they are loaded.",
    )
    openvino_properties: Mapping[str, str] | None = option(
        "--openvino-properties",
        kind=_Properties(),
        feeds=_of_both("properties"),
        help="Further properties by their names in OpenVINO.",
    )
    openvino_float32: tuple[str, ...] = option(
        "--openvino-float32",
        kind=Texts("TENSOR"),
        feeds=_of_both("float32_tensors"),
        help="Tensors of the model that are computed in float32, whatever the rest is computed in:"
        " `polygraphy diagnose` names them.",
    )
    no_openvino_fusion: bool = option(
        "--no-openvino-fusion",
        as_=False,
        feeds=_of_both("fuse"),
        help="Fuse no operators, and keep every tensor: slower, and takes memory.",
    )


def _runner(values: Values, model: RunnerModel) -> Call:
    return Call("OpenvinoRunner", [call_of("CompiledModelFromOnnx", values, model.source)])


BACKENDS = (
    BuiltIn(
        name="openvino",
        title="OpenVINO",
        help="Run the model in OpenVINO.",
        groups=(OpenvinoOptions,),
        model_types=formats_of("onnx", "tensorflow"),
        idle="nothing runs in OpenVINO: see --openvino",
        runs_parts=True,
        rewrites=True,
        call=_runner,
        modules=("openvino", "polygraphy.backend.openvino"),
    ),
)
