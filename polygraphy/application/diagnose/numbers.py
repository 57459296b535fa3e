"""Where numbers stop being numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.locating import Trace
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit
from polygraphy.domain.diagnosis.judging import is_float

_NARROW = ("float16", "bfloat16")


def first_non_finite(case: Case, known: Trace) -> Culprit | None:
    """Return the first node that makes NaN, or infinity that becomes NaN, of finite numbers."""
    held = {**known.values, **known.feed}
    first = None
    for index, node in enumerate(case.model.nodes):
        bad = [name for name in node.makes if _broken(held.get(name))]
        if bad and not any(_broken(held.get(name)) for name in node.reads):
            first = (index, bad[0])
            if np.isnan(held[bad[0]]).any():
                break
            continue
    if first is None:
        return None
    index, tensor = first
    node, value = case.model.nodes[index], held[tensor]
    nan, inf = int(np.isnan(value).sum()), int(np.isinf(value).sum())
    evidence = [f"{tensor!r} has {nan} NaN and {inf} infinite of {value.size} elements."]
    evidence += [_described(name, held[name]) for name in node.reads if name in held]
    is_narrow = value.dtype.name in _NARROW and not nan
    return Culprit(
        [node.name],
        tensor,
        MODEL,
        "overflow" if is_narrow else "nan",
        evidence=evidence,
        op=node.op,
    )


def _broken(value: Any) -> bool:
    return is_float(value) and not bool(np.isfinite(value).all())


def _described(name: str, value: Any) -> str:
    if not is_float(value) or not value.size:
        return f"Its input {name!r} is {getattr(value, 'dtype', 'no tensor')}."
    negative, zero = int((value < 0).sum()), int((value == 0).sum())
    return (
        f"Its input {name!r} goes from {value.min():.4g} to {value.max():.4g}: {negative} negative,"
        f" {zero} zero of {value.size} elements."
    )
