"""Checking models and saved results."""

from typing import TYPE_CHECKING

from polygraphy.mod.deferred import deferred_names

if TYPE_CHECKING:
    from polygraphy.application.compatibility import check_compatibility
    from polygraphy.application.linting import check_lint
    from polygraphy.application.rejudging import check_accuracy

__all__ = ["check_accuracy", "check_compatibility", "check_lint"]

__getattr__ = deferred_names(
    globals(),
    {
        "check_accuracy": "polygraphy.application.rejudging",
        "check_compatibility": "polygraphy.application.compatibility",
        "check_lint": "polygraphy.application.linting",
    },
)
