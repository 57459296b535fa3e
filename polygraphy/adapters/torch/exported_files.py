"""Reads files of `torch.export.save` without running code in them."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from polygraphy import mod
from polygraphy.domain.errors import ModelError

torch: Any = mod.lazy_import("torch", log=False)

_CACHES = "transformers.cache_utils"


def load_exported(path: Path) -> Any:
    """Return the `torch.export.ExportedProgram` in a file.

    Raises:
        ModelError: the file contains pickled objects other than tensors.
    """
    with _refuse_pickles(path):
        return torch.export.load(str(path))


@contextmanager
def _refuse_pickles(path: Path) -> Iterator[None]:
    """Refuse pickled objects while PyTorch loads a program.

    `torch.export.load` reads weights, constants and example inputs without the check of
    `weights_only` if they fail with it, and such a pickle can run any code. Caches of transformers
    are accepted once they are imported: example inputs of its exporter contain them.
    """
    load = torch.load
    # Available since PyTorch 2.5.
    allow = getattr(torch.serialization, "safe_globals", lambda _types: nullcontext())
    values = vars(sys.modules[_CACHES]).values() if _CACHES in sys.modules else ()
    caches = [value for value in values if getattr(value, "__module__", "") == _CACHES]
    caches = [value for value in caches if isinstance(value, type)]

    def checked_load(*args: Any, **options: Any) -> Any:
        """Return the loaded object; raise an error for pickled objects."""
        try:
            with allow(caches):
                return load(*args, **{**options, "weights_only": True})
        except pickle.UnpicklingError as error:
            raise ModelError(
                f"{path} contains pickled objects, which can run code when they are loaded.",
                path=path,
                hint="If you trust the file, load it in a script (--torch script.py:function).",
            ) from error

    torch.load = checked_load
    try:
        yield
    finally:
        torch.load = load
