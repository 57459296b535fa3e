"""Where the tactic replays of many builds are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.tactics import TacticReplay

__all__ = ["ReplayFolders"]


class ReplayFolders(Protocol):
    """Finds replays in files and folders."""

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a folder at a path."""

    def load(self, path: str) -> list[TacticReplay]:
        """Read one replay file, or all those in a folder and the folders in it, in the order of
        their paths.

        Raises:
            FileError: there is nothing at the path; or it is a file, and no replay. In a folder,
                files that are no replays are left out: others may be kept beside them.
        """
