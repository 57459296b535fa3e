"""Functions that compare the outputs of two runs, and what they answer.

Names are imported when they are first asked for: most programs compare with one function.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polygraphy.domain.compare.names import *  # noqa: F403

_HOMES = {
    "BaseCompareFunc": "function",
    "CompareResult": "result",
    "ComparedTensor": "result",
    "OutputCompareResult": "result",
    "PairwiseCompareFunc": "function",
    "SimpleCompareFunc": "simple",
    "UncomparedResult": "result",
}


def __getattr__(name: str) -> Any:
    """Return a public name, imported on first use."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'names')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__getattr__("__all__")})
