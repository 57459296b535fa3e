"""Finding out why the outputs of a model are wrong."""

from typing import TYPE_CHECKING

from polygraphy.mod.deferred import deferred_names

if TYPE_CHECKING:
    from polygraphy.application.diagnose.diagnosing import diagnose

__all__ = ["diagnose"]

__getattr__ = deferred_names(
    globals(),
    {"diagnose": "polygraphy.application.diagnose.diagnosing"},
)
