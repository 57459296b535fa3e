"""Replays on disk: iterations of a search as JSON, and tactics in folders beside other files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.domain.search.debug_replay import DebugReplay, IterationRecord
from polygraphy.domain.tactics import TacticReplay
from polygraphy.logger import G_LOGGER

_CLASS = "IterationContext"


_NO_REPLAY = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    StopIteration,
    RecursionError,
)
"""Errors from reading a text that is not a replay; RecursionError is from nested brackets."""


_texts: dict[str, tuple[IterationRecord, str]] = {}
"""The texts that were written last: a search saves its replay after every iteration."""


def load_debug_replay(path: str) -> DebugReplay:
    """Return the replay in a file of `--save-debug-replay`, in the format of NVIDIA's tool."""
    with translate_os_errors(path, "read"):
        text = readable_file(path, "Debug replay").read_bytes()
    try:
        document = json.loads(text)
        return DebugReplay({key: _record(field) for key, field in document.items()})
    except _NO_REPLAY as error:
        raise FileError(
            f"{path} is not a debug replay.",
            path=path,
            hint="Use a file from --save-debug-replay.",
        ) from error


def save_debug_replay(replay: DebugReplay, path: str) -> None:
    """Write a file in the format of NVIDIA's tool."""
    entries = [_text(key, record) for key, record in replay.items()]
    with atomic_file(path, "w") as stream:
        stream.write("{\n" + ",\n".join(entries) + "\n}" if entries else "{}")


def _text(key: str, record: IterationRecord) -> str:
    """Return the JSON text of an entry of a replay."""
    iteration_record, text = _texts.get(key, (None, ""))
    if iteration_record is not record:
        entry = {
            "state": dict(record.state),
            "iteration_info": {"iteration": record.iteration},
            "success": record.success,
            "polygraphy_class": _CLASS,
        }
        text = json.dumps({key: entry}, indent=4)[2:-2]
        _texts[key] = record, text
    return text


def _record(entry: Any) -> IterationRecord:
    """Return an entry of a replay as a record of an iteration."""
    if entry["polygraphy_class"] != _CLASS:
        raise ValueError
    return IterationRecord(
        IterationRecord.outcome_of(entry["success"]),
        int(entry["iteration_info"]["iteration"]),
        dict(entry["state"]),
    )


_START = 1 << 16
"""Bytes in which a replay names a field of its first entry. Chosen, not measured."""


def load_tactic_replays(path: str) -> list[TacticReplay]:
    """Return the tactic replay of a file, or those of a folder."""
    G_LOGGER.progress(f"Loading tactic replay file from {path}")
    if not Path(path).is_dir():
        return [json_io.load(readable_file(path, "Tactic replay"), TacticReplay)]
    replays = map(_replay_in, _files_in(path))
    return [replay for replay in replays if replay is not None]


def _replay_in(file: Path) -> TacticReplay | None:
    """Return the tactic replay in a file; None if it contains none."""
    try:
        replay = json_io.load(file, TacticReplay)
    except FileError as error:
        if _mentions_tactics(file):
            G_LOGGER.warning(f"Skipped a damaged tactic replay. {error}")
        else:
            G_LOGGER.verbose(f"Skipping {file}, which is not a tactic replay: {error}")
        return None
    G_LOGGER.progress(f"Loading tactic replay file from {file}")
    return replay


def _mentions_tactics(file: Path) -> bool:
    """Return whether the start of a file names the type of a tactic replay, or a field of one."""
    with translate_os_errors(file, "read"), file.open("rb") as stream:
        start = stream.read(_START)
    return any(name in start for name in (b'"TacticReplay', b'"implementation"'))


def _files_in(folder: str) -> list[Path]:
    """Return the files below a folder that may be JSON, in the order of their paths."""
    walked = os.walk(folder, followlinks=True)
    files = (Path(parent, name) for parent, _, names in walked for name in names)
    return sorted(file for file in files if _may_be_json(file))


def _may_be_json(file: Path) -> bool:
    """Return whether a file starts like JSON; engines of gigabytes may be in the same folder."""
    with translate_os_errors(file, "read"), file.open("rb") as stream:
        return stream.read(64).lstrip()[:1] == b"{"
