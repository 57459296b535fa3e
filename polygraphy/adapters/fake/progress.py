"""Progress that is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from attrs import Factory, define

T = TypeVar("T")


@define
class FollowedJob:
    """A job: what it is called, how many steps it takes and took, whether it ended, and what was
    done in it.
    """

    what: str
    total: int | None
    steps: int = 0
    has_ended: bool = False
    parts: list[str] = Factory(list)

    def step(self) -> None:
        """Count a step; a job that has ended takes none."""
        assert not self.has_ended, f"{self.what} goes on after its end"
        self.steps += 1

    def tell(self, part: str) -> None:
        """Note what is done; a job that has ended does nothing."""
        assert not self.has_ended, f"{self.what} goes on after its end"
        self.parts.append(part)


@define
class RecordingProgress:
    """Keeps the jobs that it followed, in order."""

    jobs: list[FollowedJob] = Factory(list)

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Follow a job for the length of a `with` block; see `polygraphy.ports.reporting`."""
        job = FollowedJob(what, total)
        return self._followed(job, job.step)

    def watch(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        """Follow a job that other code does; see `polygraphy.ports.reporting`."""
        job = FollowedJob(what, None)
        return self._followed(job, job.tell)

    @contextmanager
    def _followed(self, job: FollowedJob, step: T) -> Iterator[T]:
        self.jobs.append(job)
        try:
            yield step
        finally:
            job.has_ended = True
