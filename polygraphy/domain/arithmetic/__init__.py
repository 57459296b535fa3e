"""The arithmetic of comparing arrays: exact, in one pass where that is possible, and in bounded
scratch memory whatever the size of the arrays.

`Difference` compares two arrays, `summarize` and `histogram` describe one, the functions of
`similarity` measure how alike two are as a whole. All take numpy arrays of any dtype (those of
ml_dtypes too), shape and layout, and none writes to them. Nothing here logs, or raises a numpy
warning.
"""

from polygraphy.domain.arithmetic.difference import Difference, Element, Mismatches
from polygraphy.domain.arithmetic.histogram import Histogram, histogram, joint_range
from polygraphy.domain.arithmetic.passes.survey import Formula, Limit
from polygraphy.domain.arithmetic.summary import QUANTILES, Summary, summarize

__all__ = [
    "QUANTILES",
    "Difference",
    "Element",
    "Formula",
    "Histogram",
    "Limit",
    "Mismatches",
    "Summary",
    "histogram",
    "joint_range",
    "summarize",
]
