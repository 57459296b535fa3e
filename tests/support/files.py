"""Copying scripts next to the models that they belong to."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["copy_script"]

_SCRIPTS = Path(__file__).parent / "scripts"


def copy_script(name: str, destination: Path) -> None:
    """Copy `scripts/<name>` to a file, and create its folder if needed."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_SCRIPTS / name, destination)
