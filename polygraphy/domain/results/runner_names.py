"""What the name of a runner says: kind, number, and when it was made, to the microsecond, so that
runners of other processes have other names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from polygraphy.domain.tensors.naming import Note

_NUMBER_AND_TIME = re.compile(r"-N\d+-[\d/]+-[\d:.]+$")
_ORIGIN = re.compile(r".+-N\d+-[\d/]+-[\d:.]+ \((.+?)\)(?: \(\d+\))?")
"""The name of a runner, and of the file that its results are from."""
_ABOUT = re.compile(r"\S+-N\d+-[\d/]+-[\d:.]+\s+\| ")
"""How the log says which runner a note is about."""
_FRACTION = re.compile(r"(-N\d+-[\d/]+-\d\d:\d\d:\d\d)\.\d+$")


def kind_of_runner(name: str) -> str:
    """Return the name of a runner without its number and time: ``onnxrt-runner``; a name that has
    none as it is.
    """
    return _NUMBER_AND_TIME.sub("", name)


def names_of_runs(runs: Sequence[tuple[str, str]]) -> list[str]:
    """Return what runs are called everywhere, given the name of the runner of each and the file
    that it was read from, which is empty for none: ``onnxrt``, ``gold.json``, or, of a file of
    several runners, ``gold.json: onnxrt``. Only what would be called the same is numbered.
    """
    kinds = [short_names([runner])[0] for runner, _ in runs]
    paths = list(dict.fromkeys(origin for _, origin in runs if origin))
    titles = Counter(PurePath(path).name for path in paths)
    called = {path: PurePath(path).name for path in paths}
    called |= {path: path for path in paths if titles[called[path]] > 1}
    held = Counter(origin for _, origin in dict.fromkeys(runs))
    names = [
        kind if not origin else called[origin] + (f": {kind}" if held[origin] > 1 else "")
        for kind, (_, origin) in zip(kinds, runs)
    ]
    seen: Counter[str] = Counter()
    for at, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[at] = f"{name} ({seen[name]})"
    return names


def distinct(name: str, other: str) -> tuple[str, str]:
    """Return two names, of which the second is numbered if they are the same."""
    return name, other if name != other else f"{other} (2)"


def short_names(names: Iterable[str]) -> list[str]:
    """Return what runners are called where there is little room, or where names should be the same
    in the next run: ``onnxrt``, and ``onnxrt (2)`` for the next of the same kind.
    """
    counts: dict[str, int] = {}
    short = []
    for name in names:
        origin = _ORIGIN.fullmatch(name)
        kind = origin[1] if origin else kind_of_runner(name).removesuffix("-runner")
        counts[kind] = counts.get(kind, 0) + 1
        short.append(kind if counts[kind] == 1 else f"{kind} ({counts[kind]})")
    return short


def without_runner(note: str) -> str:
    """Return a note without the runner that it is about; others say the same."""
    found = _ABOUT.match(note)
    if found is None:
        return note
    text = note[found.end() :]
    return Note(text, note.brief) if isinstance(note, Note) else text


def label_of_runner(name: str) -> str:
    """Return the name of a runner as people read it: its time to the second."""
    return _FRACTION.sub(r"\1", name)


def label_of_runners(names: Iterable[str]) -> str:
    """Return the names of runners that are compared, as people read them: ``this vs. that``."""
    return " vs. ".join(map(label_of_runner, names))
