"""Check models and saved results."""

from typing import TYPE_CHECKING

from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.application.compare.reevaluating import check_accuracy
    from polygraphy.application.models.capability import check_compatibility
    from polygraphy.application.models.linting import check_lint

__all__ = ["check_accuracy", "check_compatibility", "check_lint"]

__getattr__ = defer_names(
    globals(),
    {
        "check_accuracy": "polygraphy.application.compare.reevaluating",
        "check_compatibility": "polygraphy.application.models.capability",
        "check_lint": "polygraphy.application.models.linting",
    },
)
