"""What a sweep needs: someone who runs its cells, their files, and Python environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.binding import port

if TYPE_CHECKING:
    from polygraphy.domain.sweep.cells import Job, Limits


class LaunchedJob(Protocol):
    """A job that runs in a separate process."""

    def poll(self, wait: float = 0.0) -> Mapping[str, Any] | None:
        """Return the record of the job, which is then also in its file; None while the job runs.

        Args:
            wait: seconds to wait for its end, at most.
        """

    def stop(self) -> None:
        """Stop the job, without a record."""


@port
def launch(job: Job, limits: Limits, device: str | None, *, shared: bool) -> LaunchedJob | None:
    """Return a job started in a process on this machine, which ends with this process, or None.
    The result is None while another process runs the same job.

    Args:
        job: the job.
        limits: of time and of memory.
        device: the value of CUDA_VISIBLE_DEVICES for it; None for what this process has.
        shared: whether others may run beside it.

    Returns:
        The process; None while another one, on this machine or elsewhere, runs the same.

    Raises:
        FileError: its folder cannot be written.
    """


class SweepEngine(Protocol):
    """Decides where and when jobs run."""

    def run(
        self,
        jobs: Sequence[Job],
        limits: Limits,
        ended: Callable[[Job, Mapping[str, Any]], object],
    ) -> None:
        """Run jobs in parallel; a job with a record from an earlier run is not run again.

        Args:
            jobs: the jobs, of different keys.
            limits: the number of parallel jobs, and the limits of each.
            ended: called with every job that ended and its record.

        Raises:
            FileError: the folder of a job cannot be written.
        """


@port
def matching_files(folder: str, pattern: str) -> list[str]:
    """Return the files below a folder that match a pattern relative to it, sorted."""


@port
def files_named_by(folder: str, word: str) -> list[str]:
    """Return the files that a word of a command line refers to, relative to a folder: as a path,
    after an option or the name of an input, before the name of a function; all files in a folder,
    and for a script also the modules beside it that it imports.
    """


@port
def digest_of(path: str) -> str:
    """Return a hash of the content of a file; for a model, its weights are included.

    Raises:
        FileError: the file is missing, or cannot be read.
    """


@port
def read_record(path: str) -> Mapping[str, Any] | None:
    """Return the record of a job in a file, or None if there is no file.

    Raises:
        DamagedFileError: it is none of a job, or not all of it.
    """


@port
def forget_record(path: str) -> None:
    """Remove the record of a job, so that it runs again."""


@port
def holds_sweep(folder: str) -> bool:
    """Return whether a folder contains the results of a sweep.

    Raises:
        FileError: it holds something else.
    """


@port
def claim_folder(folder: str) -> None:
    """Mark a folder as the folder of a sweep.

    Raises:
        FileError: that cannot be done.
    """


@port
def open_interpreter(path: str, folder: str) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
    """Return a Python interpreter's path, its environment variables, and its package versions.
    This package runs in the interpreter's environment.

    Args:
        path: an interpreter, or a folder of a virtual environment; empty for the interpreter that
            this is.
        folder: of the sweep.

    Returns:
        The interpreter; the environment variables with which it runs this package; and the
        versions of what it has.

    Raises:
        FileError: there is no interpreter.
        BackendError: this package does not run there.
    """


@port
def install_environment(requirements: str, folder: str) -> str:
    """Return the path of a virtual environment with a requirements file's packages,
    and those that this package needs; it is created once for each content of the file.

    Raises:
        FileError: there is no such file.
        BackendError: it cannot be made.
    """
