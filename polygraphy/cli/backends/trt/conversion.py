"""Conversions to TensorRT: engines, and pictures of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy.cli.backends.built_in import Conversion, RunnerModel, Target
from polygraphy.cli.backends.trt.checks import BUILD_GROUPS, CONFIG_GROUPS, warn_about_groups
from polygraphy.cli.backends.trt.config_options import TrtCapabilityOptions, TrtRtxOptions
from polygraphy.cli.backends.trt.engine_options import TrtGpuOptions, TrtPoolOptions
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.cli.declare.errors import inform, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, non_default_flags
from polygraphy.cli.shared.data import data_step
from polygraphy.codegen.source import Call, Source, Step

if TYPE_CHECKING:
    from polygraphy.cli.backends.trt.model import TrtModel
    from polygraphy.cli.shared.onnx import OnnxModel

_ENGINE, _PICTURE = "trt", "onnx-like-trt-network"
_OF_ENGINES = (TrtCapabilityOptions, TrtRtxOptions, TrtPoolOptions, TrtGpuOptions)


def _steps_to_convert(
    values: Values, onnx: OnnxModel | None, data: Call, target: str, output: str
) -> tuple[list[Step], Call | Source]:
    """Return the statements that build an engine or draw its network, and their result."""
    # Imported here for the same reason as in `_trt_model`.
    from polygraphy.cli.backends.trt.model import save_engine_step

    trt = _trt_model(values, target, is_script=onnx is None)
    is_path, path = onnx is None or onnx.is_as_saved, RunnerModel.path
    model = path if is_path else Source("load_model")
    before = [
        *([] if onnx is None or is_path else [Step("load_model", onnx.loader(path))]),
        *(data_step(data, calibrates=True) if trt.calibrates else ()),
        *trt.preparations(model, is_path=is_path),
    ]
    if target == _ENGINE:
        build = Step("build_engine", trt.build_engine())
        return [*before, build, *save_engine_step(output)], Source("save_engine()")
    network = Step("model", Call("onnx_like_from_network", [Source("load_network")]))
    return [*before, network], Call("save_onnx", [Source("model")], {"path": output})


def _trt_model(values: Values, target: str, *, is_script: bool) -> TrtModel:
    # Few models become engines, and the module that creates these calls is large.
    """Return the network or the engine that a conversion starts from."""
    from polygraphy.cli.backends.trt.context import build_of, network_of
    from polygraphy.cli.backends.trt.model import TrtModel

    if target != _ENGINE:
        return TrtModel(network=network_of(values, is_script=is_script))
    return build_of(values, is_script=is_script, builder="EngineBytesFromNetwork")


def _warn(values: Values, target: str) -> None:
    """Log warnings about options for another target, one line for each target."""
    if target not in (_ENGINE, _PICTURE):
        because = "the model is converted to ONNX"
        warn_about_groups(values, builds=False, loads=False, saves=False, because=because)
    of_engines = _OF_ENGINES if target != _ENGINE else ()
    flags = non_default_flags(values, [*of_engines, *(CONFIG_GROUPS if target == _PICTURE else ())])
    warn_of_idle_flags(flags, ", because no engine is built")
    if target == _ENGINE and values[TrtPoolOptions].pooled_outputs:
        inform(
            "--pooled-outputs: has no effect on the engine; runners always keep one growing"
            " allocation per output."
        )


CONVERSION = Conversion(
    targets={
        _ENGINE: Target("a TensorRT engine", ".engine", "engine"),
        _PICTURE: Target("an image of its TensorRT network", "_network.onnx", "onnx"),
    },
    groups=(
        *BUILD_GROUPS,
        TrtCapabilityOptions,
        TrtRtxOptions,
        TrtPluginOptions,
        TrtPoolOptions,
        TrtGpuOptions,
    ),
    make=_steps_to_convert,
    warn=_warn,
)
