"""Which shapes a TensorRT engine takes."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.declare.kinds import Shapes
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.declare.repeated import Repeated

InputShapes = Mapping[str, tuple[tuple[int, ...], ...]]


@option_group
class TrtProfileOptions(Options):
    """TensorRT Profiles: ranges of input shapes; each option once per profile."""

    trt_min_shapes: tuple[InputShapes, ...] = option(
        "--trt-min-shapes",
        feeds="CreateConfig.profiles",
        kind=Repeated(Shapes()),
        help="Smallest shapes of inputs, as in --trt-min-shapes image:[1,3,224,224]. Without it,"
        " the dimensions that the model leaves open are 1; alone, it is the only shape.",
    )
    trt_opt_shapes: tuple[InputShapes, ...] = option(
        "--trt-opt-shapes",
        feeds="CreateConfig.profiles",
        kind=Repeated(Shapes()),
        help="Shapes to optimise for.",
        otherwise="the smallest or else the largest",
    )
    trt_max_shapes: tuple[InputShapes, ...] = option(
        "--trt-max-shapes",
        feeds="CreateConfig.profiles",
        kind=Repeated(Shapes()),
        help="Largest shapes. Without any of the three options, --input-shapes is the profile.",
        otherwise="those to optimise for",
    )
