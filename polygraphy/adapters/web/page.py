"""Pages that show a model, each one file that needs nothing but itself.

A model is made by anybody, and its names may look like markup. So they are in the page as JSON
only, in which every character that could end a script is escaped, and the viewer writes them as
text. A content security policy has the browser run the viewer and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from polygraphy.adapters.web.document import document
from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.model import Model
from polygraphy.domain.model.drawing import GraphDrawing
from polygraphy.domain.model.statistics import ModelStatistics

VIEWER = Path(__file__).parent / "viewer"
_SCRIPTS = ("placement.js", "painting.js", "drawing.js", "panel.js", "viewer.js")
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}


def model_page(
    model: Model,
    drawings: Sequence[GraphDrawing],
    statistics: ModelStatistics,
    errors: Mapping[str, OutputRow] | None = None,
) -> str:
    """Return a page with a viewer in JavaScript; see the port."""
    shown = document(model, drawings, statistics, errors)
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    style = _asset("viewer.css")
    environment = Environment(
        loader=FileSystemLoader(VIEWER), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html.j2").render(
        title=displayable(shown["title"]),
        policy=policy_of(script, style),
        style=style,
        script=script,
        document=embedded(shown),
    )


def embedded(value: Any) -> str:
    """Return JSON that can stand in a script element, whatever texts it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _asset(name: str) -> str:
    return (VIEWER / name).read_text(encoding="utf-8")


def displayable(text: str) -> str:
    """Return a text that can be encoded: a lone surrogate, which a file name may hold, cannot."""
    return text.encode("utf-8", "replace").decode()


def policy_of(script: str, style: str) -> str:
    """Return a content security policy: this script and this style, and nothing from anywhere."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
