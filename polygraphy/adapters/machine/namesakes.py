"""Other packages of this one's name in the same environment: files of two of them, mixed, import
each other's modules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import polygraphy

_NAME = "polygraphy"
_SHOWN = 3
"""How many left files are named."""
_REMEDY = f"pip uninstall {_NAME}, until it says that there is none, then install this one again."


def namesakes(path: Sequence[str] | None = None, package: Path | None = None) -> Iterator[str]:
    """Yield a sentence about each sign that another package of this name is, or was, installed.

    Args:
        path: where packages are looked for; that of imports if None.
        package: the folder of this package's own modules; that of this process if None.
    """
    path = sys.path if path is None else path
    package = package or Path(polygraphy.__file__).parent
    found = list(metadata.distributions(name=_NAME, path=list(path)))
    others = [each for each in found if each.version != polygraphy.__version__]
    for other in others:
        yield (
            f"{_owner(other)} {other.version} is installed as well, by what"
            f" {_folder_of(other)} says, so modules of the two may be mixed. Remedy: {_REMEDY}"
        )
    for folder in _other_folders(path, package):
        yield (
            f"{folder} is another package of this name; which of the two is imported depends on the"
            f" working directory. Remedy: {_REMEDY}"
        )
    left = _left_files(found, package)
    if left and not others:
        named = ", ".join(left[:_SHOWN]) + (", ..." if len(left) > _SHOWN else "")
        yield (
            f"{len(left)} modules in {package} are not of this package, and were left by another of"
            f" its name: {named}. Remedy: delete that folder, then install this package again."
        )


def _owner(found: metadata.Distribution) -> str:
    said = " ".join(
        found.metadata.get_all("Author-email", []) + found.metadata.get_all("Author", [])
    )
    return f"NVIDIA's {_NAME}" if "nvidia" in said.lower() else f"Another {_NAME}"


def _folder_of(found: metadata.Distribution) -> str:
    return str(getattr(found, "_path", None) or found.locate_file(""))


def _other_folders(path: Sequence[str], package: Path) -> list[Path]:
    """Return the packages of this name on the import path that are not this one."""
    folders = [Path(entry or ".") / _NAME for entry in path]
    there = [folder for folder in folders if (folder / "__init__.py").is_file()]
    return list(dict.fromkeys(each for each in there if each.resolve() != package.resolve()))


def _left_files(found: Sequence[metadata.Distribution], package: Path) -> list[str]:
    """Return the modules in the package's folder that the list of its files does not have; none
    where there is no such list of what was installed, as of a clone.
    """
    listed: set[Path] = set()
    for each in found:
        if each.version == polygraphy.__version__ and each.read_text("RECORD") is not None:
            listed |= {Path(str(each.locate_file(file))).resolve() for file in each.files or ()}
    if package.resolve() / "__init__.py" not in listed:
        return []
    modules = package.resolve().rglob("*.py")
    return sorted(
        str(each.relative_to(package.resolve())) for each in modules if each not in listed
    )
