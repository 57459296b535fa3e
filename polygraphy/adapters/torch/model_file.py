"""Loads models that PyTorch saved together with their code."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.os.paths import readable_file
from polygraphy.adapters.torch.errors import check_compiler, translated_errors
from polygraphy.domain.errors import ModelError
from polygraphy.logger import G_LOGGER

torch_from_path: Callable[..., Any]

torch = mod.lazy_import("torch>=2.2")


@mod.export(funcify=True)
class TorchFromPath(BaseLoader):
    """Loads a program of `torch.export.save` (.pt2) or a module of `torch.jit.save` (.pt).

    What `torch.save` writes holds pickled objects, which run code when they are loaded: it is
    refused.
    """

    def __init__(self, path: str) -> None:
        """Name the file."""
        self._path = path

    def call_impl(self) -> Any:
        """Return the `torch.export.ExportedProgram`, or the `torch.jit.ScriptModule`.

        Raises:
            FileError: the file is missing or empty.
            ModelError: it is neither.
        """
        path = readable_file(self._path, "Model")
        G_LOGGER.info(f"Loading PyTorch model: {path.absolute()}")
        kind = _kind(path)
        with translated_errors("load", path):
            if kind == "exported":
                check_compiler()
                return torch.export.load(str(path))
            return torch.jit.load(str(path), map_location="cpu")


def _kind(path: Path) -> str:
    """Return what an archive holds by the names in it: programs are described in JSON, the code of
    TorchScript lies in a folder.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        names = []
    if any("/code/" in name for name in names):
        return "script"
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        return "exported"
    raise ModelError(
        f"{path} holds neither an exported program of PyTorch nor TorchScript.",
        path=path,
        hint="Save it with torch.export.save, or load it in a script (--torch script.py:function).",
    )
