"""Symbols out of a user's script, imported without a trace in the importing process."""

from __future__ import annotations

import _thread
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from zlib import crc32

from polygraphy.logger import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["import_from_script", "run_script", "user_frame"]

FILE_ERROR = "polygraphy.exception:FileError"
"""Class of the error for a script that is not there, as text."""

UNKNOWN_NAME_ERROR = "polygraphy.exception:UnknownNameError"
"""Class of the error for a name that a script does not define, as text."""

_ALL = "__dict__"

# `sweep` runs this package in other environments through a link.
_OURS = (str(Path(__file__).parents[1]), str(Path(__file__).resolve().parents[1]))
_STANDARD_LIBRARY = str(Path(os.__file__).parent)
_INSTALLED = ("site-packages", "dist-packages")

# Only one script at a time, because modules next to different scripts may have the same name.
_importing = _thread.RLock()

# Finders in use, with the innermost last; a script may import from another script.
_finders: list[_FolderFinder] = []


def import_from_script(path: str | os.PathLike[str], name: str) -> Any:
    """Run a Python script and return one of the objects that it defines.

    The script runs again at each call. It may import what lies in its own folder, at its top level:
    these modules are its own, and neither they nor the folder are visible to others afterwards.
    They are shared only if the folder is one that the process imports from anyway.

    Args:
        path: The script.
        name: A name at the top level of the script; ``__dict__`` for all names that there are.

    Raises:
        FileError: There is no such script.
        UnknownNameError: The script does not define `name`.
        PolygraphyException: The script raised an exception; it is the cause of this one.
    """
    script = Path(path).resolve()
    if not script.is_file():
        file_error: Any = errors.import_exception_class(FILE_ERROR)
        raise file_error(
            f"Could not import {name!r}: the script {script} does not exist.", path=script
        )
    with _importing, _OwnFolder(script.parent):
        doing = "run" if name == _ALL else f"import {name!r} from"
        module = _run_script(script, f"Could not {doing} the script {script}")
    try:
        return getattr(module, name)
    except AttributeError:
        unknown_name: Any = errors.import_exception_class(UNKNOWN_NAME_ERROR)
        known_names = [
            known_name
            for known_name, value in vars(module).items()
            if not known_name.startswith("_") and not isinstance(value, type(sys))
        ]
        raise unknown_name(f"In the script {script}, the name", name, known_names) from None


def run_script(path: str | os.PathLike[str]) -> ModuleType:
    """Return the module of a Python script after running it, as `import_from_script` does.

    Raises:
        FileError: There is no such script.
        PolygraphyException: The script raised an exception; it is the cause of this one.
    """
    script = Path(path).resolve()
    if not script.is_file():
        file_error: Any = errors.import_exception_class(FILE_ERROR)
        raise file_error(f"The script {script} does not exist.", path=script)
    with _importing, _OwnFolder(script.parent):
        return _run_script(script, f"Could not run the script {script}")


def _run_script(script: Path, failed: str) -> ModuleType:
    # Data classes and type hints look up the module of a class by its name, so the module needs a
    # unique name, as long as its objects exist.
    """Return the module of a script after running it; raise an error with the line if it fails."""
    qualified = f"polygraphy_script_{script.stem}_{crc32(os.fsencode(script)):08x}"
    loader = SourceFileLoader(qualified, str(script))
    spec = spec_from_loader(qualified, loader)
    assert spec is not None
    module = sys.modules[qualified] = module_from_spec(spec)
    try:
        # Not `exec_module`, because its bytecode cache does not detect a script that was edited
        # within the same second.
        exec(loader.source_to_code(script.read_bytes(), str(script)), vars(module))
    except (Exception, SystemExit) as error:
        sys.modules.pop(qualified, None)
        raise errors.import_exception_class(errors.PUBLIC_ERROR)(
            f"{failed}:\n{_where(error, str(script))}{type(error).__name__}: {error}"
        ) from error
    return module


def _where(error: BaseException, script: str) -> str:
    """Return `line 3: ` for the innermost line of `script` in the traceback of an error."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == script:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == script:
        line = error.lineno
    return f"line {line}: " if line else ""


class _OwnFolder:
    """A context within which this thread imports modules from `folder` before all others.

    Nothing else changes: `sys.path` is left alone, other threads do not find the folder, and
    modules from elsewhere that have the name of one in the folder are put back in the end.
    """

    def __init__(self, folder: Path) -> None:
        """Set the folder."""
        self._folder = folder
        self._finder = _FolderFinder(folder)
        self._displaced: dict[str, ModuleType] = {}

    def __enter__(self) -> None:
        """Give modules in the folder priority."""
        sys.path_importer_cache.pop(str(self._folder), None)  # The cache may not contain new files.
        outer = [finder for finder in _finders if finder.folder != self._folder]
        displaced = {name for finder in outer for name in finder.found}
        displaced |= {name for name in _names_in(self._folder) if self._may_displace(name)}
        for name in displaced:
            self._displaced.update(_remove_modules(name))
        _finders.append(self._finder)
        sys.meta_path.insert(0, self._finder)

    def __exit__(self, *_exception: object) -> None:
        """Restore the loaded modules and the finders."""
        sys.meta_path.remove(self._finder)
        _finders.remove(self._finder)
        is_shared = self._folder in (Path(entry).resolve() for entry in sys.path)
        for name in self._finder.found:
            if not is_shared or name in self._displaced:
                _remove_modules(name)
        sys.modules.update(self._displaced)

    def _may_displace(self, name: str) -> bool:
        """Return whether a module in the folder has priority over a loaded one of the same name.

        An installed package stays: libraries rely on it, and few stand being loaded twice.
        """
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is None or spec.origin is None:
            return False
        is_installed = "site-packages" in spec.origin or "dist-packages" in spec.origin
        return not is_installed and not _lies_in(self._folder, spec)


class _FolderFinder:
    """Finds top-level modules in one folder; an entry of `sys.meta_path`."""

    def __init__(self, folder: Path) -> None:
        """Set the folder."""
        self.folder = folder
        self.found: set[str] = set()
        self._thread = _thread.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module in the folder; None for other modules."""
        is_mine = _thread.get_ident() == self._thread and self is _finders[-1]
        if not is_mine or path is not None or name in sys.builtin_module_names:
            return None
        # Include `sys.path`, because a folder without `__init__.py` has the lowest priority.
        spec = PathFinder.find_spec(name, [str(self.folder), *sys.path])
        if spec is None or not _lies_in(self.folder, spec):
            return None
        self.found.add(name)
        return spec


def _names_in(folder: Path) -> set[str]:
    """Return the names of the modules in `folder` that may conflict with loaded ones."""
    modules = {path.stem for path in folder.glob("*.py")}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return (modules | packages) - sys.stdlib_module_names - {"__main__", "polygraphy"}


def _lies_in(folder: Path, spec: ModuleSpec) -> bool:
    """Return whether a top-level module is directly in `folder`."""
    locations = spec.submodule_search_locations
    if locations is None:
        locations = [spec.origin] if spec.origin else []
    return any(Path(location).parent.resolve() == folder for location in locations)


def _remove_modules(name: str) -> dict[str, ModuleType]:
    """Remove a top-level module and its submodules from `sys.modules`, and return them."""
    names = [loaded for loaded in sys.modules if f"{loaded}.".startswith(f"{name}.")]
    return {loaded: sys.modules.pop(loaded) for loaded in names}


def user_frame(error: BaseException) -> str:
    """Return `` (model.py, line 7)`` for the innermost line of an exception in user code.
    The result is empty if there is none.
    """
    location = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _is_user_file(file):
            location = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return location


def is_raised_in_package(error: BaseException) -> bool:
    """Return whether the innermost line of an exception is in this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_user_file(file: str) -> bool:
    """Return whether a file belongs to the user.
    A name in angle brackets means code without a file."""
    if file.startswith(("<", *_OURS, _STANDARD_LIBRARY)):
        return False
    return not any(name in file for name in _INSTALLED)
