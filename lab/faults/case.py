"""A case: a model, the command line that diagnoses it, and what it has to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class Culprit(NamedTuple):
    """What is to be found."""

    nodes: tuple[str, ...]
    """Naming one of these is right, and nothing outside them and those beside; empty: any."""
    beside: tuple[str, ...] = ()
    party: tuple[str, ...] = ("onnxrt",)
    causes: tuple[str, ...] = ()
    """Any of these is right; empty: any cause."""
    rewrites: tuple[str, ...] = ()
    """Any of these is right; empty: no pass can be named."""
    lines: tuple[int, ...] = ()
    """Lines of the program, of which one has to be named; empty: any."""


class Case(NamedTuple):
    """One model to be diagnosed in one environment."""

    name: str
    kind: str
    """What is wrong, as a row of the table; for healthy ones, why one might blame somebody."""
    group: str
    """``real`` or ``planted``."""
    version: str
    words: tuple[str, ...]
    """The command line, run in the folder of the case."""
    culprits: tuple[Culprit, ...] = ()
    """Empty: healthy, and nobody is to be blamed."""

    @property
    def is_vague(self) -> bool:
        """Return whether only outputs are known, which cannot identify a node for certain."""
        return "saved outputs" in self.kind

    def save(self, folder: Path) -> None:
        """Write the case to a file next to its model."""
        (folder / "case.json").write_text(json.dumps(self._asdict(), indent=1))


def load(path: Path) -> Case:
    """Return the case saved in a file."""
    fields = json.loads(path.read_text())
    fields["words"] = tuple(fields["words"])
    fields["culprits"] = tuple(
        Culprit(*map(tuple, fields_of_culprit)) for fields_of_culprit in fields["culprits"]
    )
    return Case(**fields)
