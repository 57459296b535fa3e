"""Shows a model before and after it is edited, and what the edit changed."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.model.edits import Outline, edit_between
from polygraphy.ports.binding import resolve
from polygraphy.ports.models import ModelOutlines, ModelReports


def show_original(model: Any) -> Outline:
    """Show in brief a model that will be edited.

    Args:
        model: an ``onnx.ModelProto``.

    Returns:
        What `show_edited` compares the edited model with: edits change a model in place.
    """
    outline: Outline = resolve(ModelOutlines).outline(model)
    resolve(ModelReports).outline("Original Model", outline)
    return outline


def show_edited(original: Outline, model: Any) -> None:
    """Show in brief an edited model, and which nodes and weights came and went.

    Args:
        original: what `show_original` returned.
        model: the model as it is.
    """
    outline: Outline = resolve(ModelOutlines).outline(model)
    reports = resolve(ModelReports)
    reports.outline("New Model", outline)
    reports.edit(edit_between(original, outline))
