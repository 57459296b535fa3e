"""Checks that run side by side: one is asked for, and others that may be asked for next; each has
its files in a folder of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path, PurePath
from typing import Any

from attrs import define, field, frozen

from polygraphy.application.debug.checks import CheckCommand, RunningCheck
from polygraphy.domain.errors import (
    FileError,
    MissingDependencyError,
    ModelError,
    PolygraphyException,
    UsageError,
)
from polygraphy.ports.storage import mirror_folder, remove_path


@define
class CheckFolder:
    """The folder in which one check runs.

    Attributes:
        folder: the folder; None for the current one.
        files: the paths of the files private to each check, by their original paths.
    """

    folder: str | None = None
    files: dict[str, str] = field(factory=dict)

    def path(self, path: str) -> str:
        """Return the path of a file in this folder."""
        return self.files.get(path, path)

    def text_replacements(self) -> dict[str, str]:
        """Return replacements for texts in a command that name files moved to this folder."""
        texts = {}
        for path, file in self.files.items():
            own_name = str(Path(file).absolute())
            texts[str(Path(path).absolute())] = own_name
            if not _is_inside(path):
                texts[path] = own_name
        return texts


class CheckFolders:
    """Folders for parallel checks. Each links to the contents of the current folder, except for the
    files that a check has a copy of."""

    def __init__(self, folder: str, count: int, files: Sequence[str]) -> None:
        """Set the number of folders and the files to copy.

        Args:
            folder: the parent of the folders, which are created when they are needed.
            count: the number of checks.
            files: the files private to each check.
        """
        self._folder = folder
        self._files = list(files)
        self._numbers = list(range(count, 0, -1))
        self._free: list[CheckFolder] = []

    def take(self) -> CheckFolder | None:
        """Return an unused folder; None if there is none."""
        if self._free:
            return self._free.pop()
        if not self._numbers:
            return None
        folder = posixpath.join(self._folder, str(self._numbers.pop()))
        remove_path(folder)
        mirror_folder(folder, [self._folder, *self._files])
        files = {path: posixpath.join(folder, _name(path)) for path in self._files}
        return CheckFolder(folder, files)

    def give_back(self, check_folder: CheckFolder) -> None:
        """Put a folder back into the pool after its files were removed."""
        self._free.append(check_folder)

    def close(self) -> None:
        """Remove all folders."""
        self._free.clear()
        remove_path(self._folder)


def _is_inside(path: str) -> bool:
    """Return whether a relative path leads to a file in the current folder."""
    return not PurePath(path).is_absolute() and ".." not in PurePath(path).parts


def _name(path: str) -> str:
    """Return a path inside the current folder, or the name of another file."""
    return path if _is_inside(path) else PurePath(path).name


@frozen
class Candidate:
    """An artifact that may be checked next: its key, and the function that creates it."""

    key: Hashable
    make: Callable[[str], Any] | None = None


@frozen
class StartedCheck:
    """A created artifact with its running check.

    Attributes:
        check_folder: the folder in which it runs.
        running: its check; None if a user is asked.
        error: the reason why it could not be created.
    """

    check_folder: CheckFolder
    running: RunningCheck | None = None
    error: PolygraphyException | None = None


class Jobs:
    """Starts up to a number of checks in parallel, each in a folder of its own."""

    def __init__(
        self,
        command: CheckCommand | None,
        artifact: str | None,
        own_names: Sequence[str],
        folder: str,
        count: int,
    ) -> None:
        """Set the command, the artifact, and the number of parallel checks.

        Args:
            command: the check; None if a user is asked.
            artifact: the path of the artifact of each check.
            own_names: the paths of which each check has its own copy.
            folder: with a folder for each job; a single job runs in the current folder.
            count: number of jobs.
        """
        self._command = command
        self._artifact = artifact
        self._own = list(own_names)
        self._folder = folder
        self._count = 1 if command is None or artifact is None else count
        self._here = CheckFolder()
        self._folders: CheckFolders | None = None
        self._ahead: dict[Hashable, StartedCheck] = {}

    def current_path(self, path: str) -> str:
        """Return the current path of a file that each check has a copy of."""
        if path not in self._own:
            assert self._folders is None
            self._own.append(path)
        return self._here.path(path)

    def start_check(
        self, wanted_candidate: Candidate, ahead: Callable[[int], Sequence[Candidate]] | None
    ) -> StartedCheck:
        """Return the requested check, started now or earlier.
        Start likely next ones, and stop others.
        """
        if self._count == 1 or ahead is None:
            return self._start(wanted_candidate, CheckFolder())
        if self._folders is None:
            self._folders = CheckFolders(self._folder, self._count, self._own)
        candidates = ahead(self._count - 1)
        keys = {wanted_candidate.key, *(candidate.key for candidate in candidates)}
        for key in [key for key in self._ahead if key not in keys]:
            self._stop(self._ahead.pop(key))
        started_job = self._ahead.pop(wanted_candidate.key, None)
        for candidate in ([] if started_job else [wanted_candidate]) + list(candidates):
            check_folder = None if candidate.key in self._ahead else self._folders.take()
            if check_folder is None:
                continue
            started = self._start(candidate, check_folder)
            if candidate is wanted_candidate:
                started_job = started
            else:
                self._ahead[candidate.key] = started
        assert started_job is not None
        return started_job

    def release_folder(self, started: StartedCheck, new_names: Sequence[str]) -> None:
        """Release the folder of a check, without the files created there."""
        if self._folders is not None and started.check_folder.folder is not None:
            for path in new_names:
                remove_path(started.check_folder.path(path))
            self._folders.give_back(started.check_folder)

    def close(self) -> None:
        """Stop checks that run ahead, and remove their folders."""
        for started in self._ahead.values():
            if started.running is not None:
                started.running.stop()
        self._ahead.clear()
        if self._folders is not None:
            self._folders.close()
            self._folders = None

    def _stop(self, started: StartedCheck) -> None:
        """Stop a check that was started early and is not needed."""
        if started.running is not None:
            started.running.stop()
        self.release_folder(started, self._own)

    def _start(self, candidate: Candidate, check_folder: CheckFolder) -> StartedCheck:
        """Create an artifact, and return its started check."""
        self._here = check_folder
        try:
            if candidate.make is not None:
                assert self._artifact is not None
                candidate.make(check_folder.path(self._artifact))
            if self._command is None:
                return StartedCheck(check_folder)
            running = self._command.start(
                folder=check_folder.folder, replacements=check_folder.text_replacements()
            )
            return StartedCheck(check_folder, running)
        except PolygraphyException as error:
            if _ends_the_search(error):
                raise
            return StartedCheck(check_folder, error=error)
        finally:
            self._here = CheckFolder()


def _ends_the_search(error: PolygraphyException) -> bool:
    """Return whether an error ends the search, because it does not depend on the artifact:
    a full disk, for example.
    """
    if isinstance(error, FileError):
        return not isinstance(error, ModelError)
    return isinstance(error, (UsageError, MissingDependencyError))
