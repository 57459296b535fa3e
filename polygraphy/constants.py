"""Names and numbers that several parts of the package, and saved files, agree on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.config import AUTOINSTALL_DEPS, INTERNAL_CORRECTNESS_CHECKS

__all__ = [
    "AUTOINSTALL_DEPS",
    "DEFAULT_SEED",
    "DEFAULT_SHAPE_VALUE",
    "INTERNAL_CORRECTNESS_CHECKS",
    "LEGACY_KEY_PREFIX",
    "LEGACY_TYPE_MARKER",
    "MARK_ALL",
    "TAB",
    "TYPE_MARKER",
]

DEFAULT_SHAPE_VALUE = 1
"""Extent that replaces a dynamic dimension for which the user gave none."""

DEFAULT_SEED = 1
"""Seed of generated input data."""

TAB = "    "
"""One level of indentation in log messages and in text output."""

MARK_ALL = "mark-all"
"""Sentinel given in place of a list of output names: make every tensor an output."""

TYPE_MARKER = "polygraphy_class"
"""JSON key that names the type of an encoded object."""

LEGACY_TYPE_MARKER = "polygraphy_serialized_json_type"
"""JSON value that marks an encoded object in files older than `TYPE_MARKER`."""

LEGACY_KEY_PREFIX = "__polygraphy_encoded_"
"""Start of the JSON key that holds `LEGACY_TYPE_MARKER`; the name of the type follows."""

_SETTINGS = ("AUTOINSTALL_DEPS", "INTERNAL_CORRECTNESS_CHECKS")

if not TYPE_CHECKING:

    def __getattr__(name):
        """Return a constant, computed on first use."""
        # Read `config` on each access, because a program may change it.
        if name not in _SETTINGS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from polygraphy import config

        return getattr(config, name)


def __dir__() -> list[str]:
    """Return the names of all constants."""
    return sorted({*globals(), *_SETTINGS})
