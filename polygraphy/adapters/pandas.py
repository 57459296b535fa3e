"""Tables of pandas from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy import mod
from polygraphy.domain.errors import MissingDependencyError

pandas = mod.lazy_import("pandas")


def data_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return a ``pandas.DataFrame`` with a row per record."""
    if not pandas.is_installed():
        install = pandas.install_command()
        raise MissingDependencyError(
            f"Tables require pandas, which is not installed. Install it with: {install}",
            module="pandas",
            install=install,
        )
    return pandas.DataFrame.from_records([dict(record) for record in records])
