"""How every tensor of a model is compared, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Integer, Kind
from polygraphy.cli.declare.kinds.numbers import ByteSize
from polygraphy.cli.declare.option import Options, option, option_group


class _CountAndPath(Kind):
    """A number, and a path where that is given: ``3`` or ``3 worst.safetensors``."""

    nargs = "+"
    metavar = "N [PATH]"

    def parse(self, words: Sequence[str]) -> tuple[int, str | None]:
        """Return the number, and the path or None."""
        if len(words) > 2:
            raise BadValue(f"{' '.join(words[1:])!r} is more than a number and a path")
        return Integer(minimum=1).parse(words[:1]), words[1] if len(words) > 1 else None

    def files(self, value: tuple[int, str | None]) -> list[tuple[str, str | None]]:
        """Return the path, or where that is saved without one."""
        return [(value[1] or "worst.safetensors", None)]

    def unparse(self, value: tuple[int, str | None]) -> list[str]:
        """Return the number, and the path if there is one."""
        return [str(value[0]), *([] if value[1] is None else [value[1]])]


def memory_budget_option(
    feeds: str, *, when: str, how: str, otherwise: str = "a quarter of the free memory"
) -> Any:
    """Return the option `--memory-budget`, whose effect differs: when it counts, and how."""
    return option(
        "--memory-budget",
        kind=ByteSize(),
        help=f"How much memory tensors may take at a time where {when}, beside the weights, as in"
        f" 512M or 2G. {how}",
        otherwise=otherwise,
        feeds=feeds,
    )


@option_group
class LayerwiseOptions(Options):
    """Layer by Layer: comparing every tensor of a model (--mark-all, or '*' as the outputs)."""

    memory_budget: int | None = memory_budget_option(
        "Comparator.run_layerwise.memory_budget",
        when="every tensor is compared",
        how="As many layers at a time are run as fit, each once. With --trt, only if it is set:"
        " there each segment takes a build of its own, and is fused differently than in the whole"
        " model.",
    )
    no_unmarked: bool = option(
        "--no-unmarked",
        help="Do without the run with nothing marked. Where tensors are marked as outputs, each"
        " runner of an ONNX model also runs it as it is, and the model's own outputs are taken"
        " from there and compared: backends do not rewrite what is marked, so that faults of their"
        " rewrites do not show. TensorRT does without where it replays or records tactics or"
        " calibrates.",
        feeds="Comparator.run_layerwise.unmarked",
        as_=False,
    )
    save_worst: tuple[int, str | None] | None = option(
        "--save-worst",
        writes=True,
        kind=_CountAndPath(),
        help="Save the values of both sides of the N outputs that exceed their tolerance the most,"
        " to PATH or worst.safetensors. They are held in memory, besides the budget.",
    )
    save_error_by_depth: str | None = option(
        "--save-error-by-depth",
        writes=True,
        help="Save a plot of the largest differences of the outputs, in the order in which the"
        " model computes them, as .png or .svg; takes matplotlib.",
        feeds="Comparator.compare_accuracy.save_error_by_depth",
    )
