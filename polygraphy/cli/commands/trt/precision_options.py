"""How it is found out which layers need more precision."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.declare.kinds import Choice, NumberOrAuto, PerName
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class PrecisionSearchOptions(Options):
    """Search: which layers are tried in higher precision."""

    onnxrt: bool = option(
        "--onnxrt",
        help="Search in the ONNX model, without TensorRT: find the fewest nodes that have to stay"
        " in fp32 when it is cast to fp16 (or with --bf16 to bf16), those first that lose most"
        " alone. Without a check, the cast model is computed with rounding at every operator and"
        " compared with itself in fp32; ONNX Runtime rounds less on a CPU.",
    )
    mode: str | None = option(
        "--mode",
        feeds="find_layers_to_raise.mode",
        kind=Choice("bisect", "linear", "minimal"),
        help="How many layers from one end: bisect halves, linear adds one after the other."
        " minimal finds single layers, wherever they are, as few as possible.",
    )
    direction: str | None = option(
        "--dir",
        "--direction",
        kind=Choice("forward", "reverse"),
        feeds="find_layers_to_raise.direction",
        help="From the inputs (forward) or the outputs (reverse).",
    )
    precision: str | None = option(
        "-p",
        "--precision",
        kind=Choice("float32", "float16", aliases={"fp32": "float32", "fp16": "float16"}),
        help="The higher precision.",
        otherwise="float32",
    )


@option_group
class GoldenOptions(Options):
    """Reference: saved outputs that take the place of a check command."""

    golden_outputs: str | None = option(
        "--golden-outputs",
        reads="File of inference results",
        help="Check each engine by running it and comparing its outputs with these, which run"
        " --save-outputs has saved; the options about data are those of that run.",
    )
    rtol: Any = option(
        "--rtol",
        "--rel-tol",
        needs="--golden-outputs",
        kind=PerName(NumberOrAuto(minimum=0)),
        help="The relative tolerance of that comparison, as of run.",
    )
    atol: Any = option(
        "--atol",
        "--abs-tol",
        needs="--golden-outputs",
        kind=PerName(NumberOrAuto(minimum=0)),
        help="The absolute tolerance of that comparison.",
    )
    save_layer_outputs: str | None = option(
        "--save-layer-outputs",
        writes=True,
        help="Save all outputs of the last engine, and how far each is off. --mark-all makes every"
        " tensor an output.",
    )
