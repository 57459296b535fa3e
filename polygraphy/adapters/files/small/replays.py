"""Finds tactic replays in folders that hold other things too."""

from __future__ import annotations

import os
from pathlib import Path

from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.domain.tactics.tactics import TacticReplay
from polygraphy.logger import G_LOGGER


class DiskReplayFolders:
    """Reads replays from disk; implements the port `ReplayFolders`."""

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def load(self, path: str) -> list[TacticReplay]:
        G_LOGGER.info(f"Loading tactic replay file from {path}")
        if not Path(path).is_dir():
            return [json_io.load(readable_file(path, "Tactic replay"), TacticReplay)]
        replays = map(_replay_in, _files_in(path))
        return [replay for replay in replays if replay is not None]


def _replay_in(file: Path) -> TacticReplay | None:
    """Read a file; None where it is no replay."""
    try:
        replay = json_io.load(file, TacticReplay)
    except FileError as error:
        G_LOGGER.verbose(f"Leaving out {file}, which is no tactic replay: {error}")
        return None
    G_LOGGER.info(f"Loading tactic replay file from {file}")
    return replay


def _files_in(folder: str) -> list[Path]:
    """Return the files below a folder that may be JSON, in the order of their paths."""
    walked = os.walk(folder, followlinks=True)
    files = (Path(parent, name) for parent, _, names in walked for name in names)
    return sorted(file for file in files if _may_be_json(file))


def _may_be_json(file: Path) -> bool:
    """Look at the start of a file: engines of gigabytes may lie beside the replays."""
    with translated_os_errors(file, "read"), file.open("rb") as stream:
        return stream.read(64).lstrip()[:1] == b"{"
