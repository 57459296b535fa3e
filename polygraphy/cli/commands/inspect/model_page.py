"""From options to the call that shows a model in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.commands.inspect.model_options import (
    InspectedModelOptions,
    ModelDetailOptions,
    PageOptions,
    shown,
)
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.values import Values
from polygraphy.codegen.call import Call


def page_of(values: Values, decided: Mapping[str, Any]) -> Call | None:
    """Return the call; None where no page is asked for.

    Args:
        values: the options of `inspect model`.
        decided: arguments of loading the model that no option feeds.

    Raises:
        CommandLineError: there are several models, or the page would replace the model.
    """
    page, paths = values[PageOptions], values[InspectedModelOptions].paths
    serves = page.visual and page.save_visual is None
    if page.visual_port is not None and not serves:
        warn("--visual-port: has no effect, because no page is served: see --visual.")
    if not serves and page.save_visual is None:
        if page.visual_errors is not None:
            warn("--visual-errors: has no effect, because no page is made: see --save-visual.")
        return None
    if len(paths) > 1:
        raise CommandLineError(
            f"a page shows one model, and there are {len(paths)}. Make a page for each."
        )
    unused = flags_given(
        values, [ModelDetailOptions], besides=("--show", "--mode", "--show-weights")
    )
    if unused:
        warn(f"{', '.join(unused)}: without effect, because a page is made instead of text.")
    weights = "weights" in shown(values[ModelDetailOptions]) or None
    if serves:
        return call_of("draw_model", values, paths[0], weights=weights, **decided)
    return call_of(
        "draw_model", values, paths[0], page.save_visual, port=None, weights=weights, **decided
    )
