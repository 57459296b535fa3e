"""Modules and names: lazy imports, versions, symbols out of scripts, exports and deprecation."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.mod.dependency import LazyModule, autoinstall, has_mod, lazy_import
    from polygraphy.mod.deprecation import deprecate, export_deprecated_alias, warn_deprecated
    from polygraphy.mod.exporting import export
    from polygraphy.mod.scripts import import_from_script
    from polygraphy.mod.versions import LATEST_VERSION, Version, version

__all__ = [
    "LATEST_VERSION",
    "LazyModule",
    "Version",
    "autoinstall",
    "deprecate",
    "export",
    "export_deprecated_alias",
    "has_mod",
    "import_from_script",
    "lazy_import",
    "version",
    "warn_deprecated",
]

# Few programs use more than two of these, and all start faster without the rest.
_HOMES = {
    "G_LOGGER": "deprecation",
    "LATEST_VERSION": "versions",
    "LazyModule": "dependency",
    "Version": "versions",
    "autoinstall": "dependency",
    "deprecate": "deprecation",
    "export": "exporting",
    "export_deprecated_alias": "deprecation",
    "has_mod": "dependency",
    "import_from_script": "scripts",
    "lazy_import": "dependency",
    "version": "versions",
    "warn_deprecated": "deprecation",
}


_SUBMODULES = ("exporter", "importer", "trt_importer", "util")


if not TYPE_CHECKING:  # With this function, a type checker would accept any name.

    def __getattr__(name):
        """Return a public name, imported on first use."""
        if name in _SUBMODULES:
            return __import__(f"{__name__}.{name}", fromlist=[name])
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = __import__(f"{__name__}.{_HOMES[name]}", fromlist=[name])
        value = globals()[name] = getattr(home, name)
        return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *_HOMES, *_SUBMODULES})
