"""Packages that look installed: a folder that holds their metadata and modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["BACKEND", "install"]

BACKEND = """
from polygraphy.extension import Backend
BACKEND = Backend(title="Mine", help="Runs it.")
"""
"""A module with a backend that has no options of its own."""


def install(
    folder: Path,
    entry_points: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
    *,
    name: str = "mine",
) -> Path:
    """Write the files of an installed distribution; return the folder for `sys.path`.

    Args:
        folder: where to.
        entry_points: by group and name.
        modules: files of the package by path, beside the metadata.
        name: the name of the package, whose version is 1.0.
    """
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
    )
    sections = (
        "\n".join((f"[{group}]", *(f"{key} = {value}" for key, value in named.items())))
        for group, named in entry_points.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(sections) + "\n", encoding="utf-8")
    for path, text in (modules or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder
