"""Compiles templates when the package is built, so that running a command compiles nothing."""

from __future__ import annotations

from pathlib import Path

from jinja2 import FileSystemLoader

from polygraphy.codegen.render import TEMPLATES, environment


def write(folder: Path) -> None:
    """Write the compiled templates below `folder`, the package's folder in the build."""
    target = folder / "codegen" / "compiled"
    target.mkdir(parents=True, exist_ok=True)
    environment(FileSystemLoader(TEMPLATES)).compile_templates(
        target, zip=None, ignore_errors=False
    )
    (target / "__init__.py").write_text(
        '"""Templates, compiled from ../templates."""\n', encoding="utf-8"
    )
