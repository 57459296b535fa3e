"""How the errors of one output are distributed."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.arithmetic import Difference


def distribution_of(difference: Difference) -> dict[str, Any]:
    """Return ``min``, ``max``, ``mean``, ``std``, ``median``, ``p90``, ``p95`` and ``p99`` of the
    absolute error, the number of ``nan`` errors, and a ``histogram`` with ``counts`` and
    ``bin_edges``.

    Statistics ignore errors that are NaN; for empty outputs, all are 0.
    """
    summary = difference.absolute()
    drawn = difference.absolute_histogram()
    statistics = {
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "std": summary.std,
        "median": summary.median,
        **{f"p{q * 100:g}": value for q, value in summary.quantiles.items()},
    }
    return {
        **{name: float(value) if summary.size else 0.0 for name, value in statistics.items()},
        "nan": summary.nan,
        "histogram": {
            "bin_edges": [float(edge) for edge in drawn.edges],
            "counts": [int(count) for count in drawn.counts],
        },
    }
