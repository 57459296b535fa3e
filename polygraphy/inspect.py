"""Looking into saved data."""

from polygraphy.application.diff import compare_saved
from polygraphy.application.inspection import inspect_data

__all__ = ["compare_saved", "inspect_data"]
