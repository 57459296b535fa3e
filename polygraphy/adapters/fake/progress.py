"""Progress that is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from attrs import Factory, define

__all__ = ["FollowedJob", "RecordingProgress"]


@define
class FollowedJob:
    """A job: what it is called, how many steps it takes and took, and whether it ended."""

    what: str
    total: int | None
    steps: int = 0
    has_ended: bool = False

    def step(self) -> None:
        """Count a step; a job that has ended takes none."""
        assert not self.has_ended, f"{self.what} goes on after its end"
        self.steps += 1


@define
class RecordingProgress:
    """Keeps the jobs that it followed, in order."""

    jobs: list[FollowedJob] = Factory(list)

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Follow a job for the length of a `with` block; see `polygraphy.ports.progress`."""
        return self._followed(FollowedJob(what, total))

    @contextmanager
    def _followed(self, job: FollowedJob) -> Iterator[Callable[[], None]]:
        self.jobs.append(job)
        try:
            yield job.step
        finally:
            job.has_ended = True
