"""`diagnose --fp-to-fp16` and `--to-bf16`: would the model work in half precision?"""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.backends.built_in import RunnerModel
from polygraphy.cli.commands.command import Program
from polygraphy.cli.commands.diagnose_options import (
    HandoverOptions,
    MemoryOptions,
    parties_of,
)
from polygraphy.cli.declare.errors import warn_of_idle_flags
from polygraphy.cli.declare.kinds import Number
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.data import DataOptions, data_loader_argument, data_of
from polygraphy.cli.shared.model import CheckedModelOptions
from polygraphy.codegen.source import Source, Step, quote_word

_ASKED = ("--fp-to-fp16", "--to-bf16")


@option_group
class HalfOptions(Options):
    """Half precision: whether the model works in it, and which nodes must stay in fp32."""

    fp_to_fp16: bool = option(
        "--fp-to-fp16",
        excludes="--to-bf16",
        help="Compute the model in fp16 with rounding at every operator, compare with fp32, and"
        " find the smallest set of nodes that must stay in fp32. No backend is required; each one"
        " that you name runs the fp16 model.",
    )
    to_bf16: bool = option(
        "--to-bf16",
        help="Compute the model in bf16 with rounding at every"
        " operator, compare with fp32, and find the smallest set of nodes that must stay in fp32.",
    )
    rtol: float | None = option(
        "--rtol",
        "--rel-tol",
        needs=_ASKED,
        kind=Number(minimum=0),
        feeds="diagnose_half.rtol",
        help="Relative tolerance for outputs in half precision.",
        otherwise="the rounding limit: 0.0156 in fp16, 0.125 in bf16",
    )
    atol: float | None = option(
        "--atol",
        "--abs-tol",
        needs=_ASKED,
        kind=Number(minimum=0),
        feeds="diagnose_half.atol",
        help="Absolute tolerance for outputs in half precision.",
        otherwise="RTOL times the root mean square of the output, or RTOL for probabilities",
    )


def half_of(values: Values) -> str | None:
    """Return the half precision that the options request; None without one."""
    options = values[HalfOptions]
    if options.fp_to_fp16 or options.to_bf16:
        return "fp16" if options.fp_to_fp16 else "bf16"
    return None


def render_half(values: Values, dtype: str) -> Program:
    """Return the program that diagnoses half precision."""
    parties = parties_of(values)
    reasons: list[tuple[Sequence[type[Options]], str]] = [
        ([HandoverOptions], "precision loss is not a backend fault to report"),
        ([MemoryOptions], "nodes are computed one at a time, and unused tensors are released"),
    ]
    for groups, why in reasons:
        warn_of_idle_flags(
            non_default_flags(values, groups, besides=["--environments"]), f", because {why}"
        )
    diagnosed = values[CheckedModelOptions]
    data = data_of(values[DataOptions], diagnosed.input_shapes)
    return Program(
        "check.py.j2",
        f"Check whether {quote_word(diagnosed.path)} works in {dtype}.",
        model=diagnosed.path,
        before=[Step("parties", parties)] if parties else [],
        call=call_of(
            "diagnose_half",
            values,
            RunnerModel.path,
            dtype=None if dtype == "fp16" else dtype,
            parties=Source("parties") if parties else None,
            data_loader=data_loader_argument(data),
        ),
    )
