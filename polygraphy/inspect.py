"""Inspect models and saved data."""

from typing import TYPE_CHECKING

from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.application.compare.reevaluating import compare_saved
    from polygraphy.application.inspection import (
        compare_tactics,
        find_bad_tactics,
        inspect_data,
        inspect_tactics,
    )
    from polygraphy.application.models.capability import inspect_capability
    from polygraphy.application.models.model_inspection import (
        compare_models,
        describe_model,
        draw_model,
        inspect_model,
        inspect_outputs,
        inspect_sparsity,
    )
    from polygraphy.application.profile_inspection import inspect_profile

__all__ = [
    "compare_models",
    "compare_saved",
    "compare_tactics",
    "describe_model",
    "draw_model",
    "find_bad_tactics",
    "inspect_capability",
    "inspect_data",
    "inspect_model",
    "inspect_outputs",
    "inspect_profile",
    "inspect_sparsity",
    "inspect_tactics",
]

__getattr__ = defer_names(
    globals(),
    {
        "compare_models": "polygraphy.application.models.model_inspection",
        "compare_saved": "polygraphy.application.compare.reevaluating",
        "compare_tactics": "polygraphy.application.inspection",
        "describe_model": "polygraphy.application.models.model_inspection",
        "draw_model": "polygraphy.application.models.model_inspection",
        "find_bad_tactics": "polygraphy.application.inspection",
        "inspect_capability": "polygraphy.application.models.capability",
        "inspect_data": "polygraphy.application.inspection",
        "inspect_model": "polygraphy.application.models.model_inspection",
        "inspect_outputs": "polygraphy.application.models.model_inspection",
        "inspect_profile": "polygraphy.application.profile_inspection",
        "inspect_sparsity": "polygraphy.application.models.model_inspection",
        "inspect_tactics": "polygraphy.application.inspection",
    },
)
