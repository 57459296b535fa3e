"""The metrics that are one number: thresholds, verdicts and functions, made from the rows of the
catalog. `metrics.pyi`, which `make signatures` writes, is what type checkers read.
"""

from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare.measures import MEASURES
from polygraphy.domain.compare.metric import classes_of

__all__ = [name for row in METRICS.values() for name in row.published_names]
__all__.sort()

for _row in METRICS.values():
    for _each in classes_of(_row, MEASURES[_row.function]):
        _each.__module__ = __name__
        globals()[_each.__name__] = _each
