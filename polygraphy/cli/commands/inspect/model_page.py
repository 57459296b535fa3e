"""From options to the context of the program that shows a model in a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.commands.inspect.model_options import (
    InspectedModelOptions,
    ModelDetailOptions,
    PageOptions,
    shown,
)
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.paths import check_paths
from polygraphy.codegen.scripts.models import DrawModelScript


def page_of(
    values: Values, words: Sequence[str], load: Mapping[str, Any], usage: str
) -> DrawModelScript | None:
    """Return the context; None where no page is asked for.

    Args:
        values: the options of `inspect model`.
        words: the command line.
        load: arguments of loading the model.
        usage: the command, for messages.

    Raises:
        CommandLineError: there are several models, or the page would replace the model.
    """
    page, paths = values[PageOptions], values[InspectedModelOptions].paths
    serves = page.visual and page.save_visual is None
    if page.visual_port is not None and not serves:
        warn("--visual-port: has no effect, because no page is served: see --visual.")
    if not serves and page.save_visual is None:
        return None
    if len(paths) > 1:
        raise CommandLineError(
            f"a page shows one model, and there are {len(paths)}. Make a page for each.", usage
        )
    check_paths(
        [("MODEL", paths[0])],
        [
            ("--save-visual", page.save_visual),
            ("--log-file", values[LogOptions].log_file),
            ("--gen-script", values[ScriptOptions].gen_script),
        ],
        usage,
    )
    unused = flags_given(
        values, [ModelDetailOptions], besides=("--show", "--mode", "--show-weights")
    )
    if unused:
        warn(f"{', '.join(unused)}: without effect, because a page is made instead of text.")
    return DrawModelScript(
        command=words,
        path=paths[0],
        output=page.save_visual,
        port=page.visual_port if serves else None,
        weights="weights" in shown(values[ModelDetailOptions]) or None,
        load=load,
        log=log_of(values[LogOptions]),
    )
