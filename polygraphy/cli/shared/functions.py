"""Thresholds of the comparison functions that `--compare` chooses from, beside `simple`."""

from __future__ import annotations

from typing import Any

import attr
from attrs import frozen

from polygraphy.cli.declare.kinds import Integer, Kind, Number, PerName
from polygraphy.cli.declare.option import Options, option
from polygraphy.domain.catalog.metrics import GROUPS, THRESHOLDS, Metric

FUNCTIONS = ("simple", *THRESHOLDS, *GROUPS)
"""What `--compare` chooses from."""


def _threshold(row: Metric) -> Any:
    kind: Kind = Number(minimum=row.minimum, maximum=row.maximum)
    if row.is_whole:
        kind = Integer(minimum=int(row.minimum))
    return option(*row.flags, kind=PerName(kind), help=row.help, otherwise=row.default_text)


FunctionOptions = attr.make_class(
    "FunctionOptions",  # Its fields are named after the functions.
    {name: _threshold(row) for name, row in THRESHOLDS.items()},
    bases=(Options,),
    frozen=True,
)
FunctionOptions.__doc__ = (
    "Other Comparison Functions: what --compare indices, l2, ... hold outputs to, for all outputs"
    " or per output."
)


@frozen
class TopKOptions(Options):
    """Comparison Function `top_k`: which entries are looked at."""

    k: Any = option(
        "--top-k",
        kind=PerName(Integer(minimum=1)),
        help="How many of the highest entries must agree, for all outputs or per output.",
        otherwise="1",
    )
    margin: Any = option(
        "--top-k-margin",
        kind=PerName(Number(minimum=0)),
        help="How much lower than the lowest of the second run's highest scores the score of an"
        " entry may be there, so that near ties may change places.",
        otherwise="0",
    )
