"""A plan with what its cells need: keys, interpreters, and the command lines of their processes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePath

from attrs import frozen

from polygraphy.domain.errors import BackendError, FileError, MissingFileError, UsageError
from polygraphy.domain.sweep.cells import Asked, Cell, Job, cells_of, key_of
from polygraphy.domain.sweep.plan import EnvironmentRow, Plan, Words
from polygraphy.ports.sweeping import (
    digest_of,
    install_environment,
    matching_files,
    open_interpreter,
)


@frozen
class Interpreter:
    """One that runs cells, with what it is called with, and the versions of what it has."""

    path: str
    environment: Mapping[str, str]
    versions: Mapping[str, str]


@frozen
class PlannedCell:
    """A cell, its key, and the key of what it is compared with."""

    cell: Cell
    key: str
    shared_key: str
    interpreter: Interpreter


class Planned:
    """See above.

    Attributes:
        folder: that of the sweep, whole.
        merged: how many combinations are the same as others.
    """

    def __init__(self, plan: Plan, folder: str, root: str) -> None:
        """Find models, open environments, and compute keys.

        Raises:
            UsageError: a pattern matches no model, a file is missing, or an environment cannot be
                used.
            FileError: a file of the plan cannot be read.
        """
        self.plan = plan
        self.folder = os.path.abspath(folder)  # noqa: PTH100
        self._root = os.path.abspath(root)  # noqa: PTH100
        self._digests: dict[str, str] = {}
        self._here = self._opened(None)
        self._interpreters = {row.name: self._opened(row) for row in plan.environments}
        listed = [self._planned(cell) for cell in cells_of(plan, self._models())]
        unique = {one.key: one for one in reversed(listed)}
        self.cells = [one for one in listed if unique[one.key] is one]
        self.merged = len(listed) - len(self.cells)

    def _models(self) -> list[str]:
        found: dict[str, None] = {}
        for pattern in self.plan.models:
            matches = matching_files(self._root, pattern)
            if not matches:
                raise UsageError(
                    f"No model matches {pattern!r}.", hint=f"Patterns start at {self._root}."
                )
            found.update(dict.fromkeys(matches))
        return list(found)

    def _opened(self, row: EnvironmentRow | None) -> Interpreter:
        """Return an interpreter; that of this process for None."""
        try:
            path = ""
            if row is not None:
                path = self._whole(row.path or row.requirements)
            if row is not None and row.requirements:
                path = install_environment(path, self.folder)
            return Interpreter(*open_interpreter(path, self.folder))
        except (FileError, BackendError) as error:
            raise UsageError(f"Environment {row.name if row else 'here'!r}: {error}") from error

    def _whole(self, path: str) -> str:
        return str(PurePath(self._root) / path)

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            try:
                self._digests[path] = digest_of(self._whole(path))
            except MissingFileError as error:
                raise UsageError(f"The plan names what is not there: {error}") from error
        return self._digests[path]

    @cached_property
    def _known_files(self) -> dict[str, bool]:
        return {}

    def _contents(self, flags: Words) -> Iterator[str]:
        """Yield hashes of the files that flags name."""
        for word in flags:
            if word not in self._known_files:
                found = not word.startswith("-") and matching_files(self._root, word)
                self._known_files[word] = found == [word]
            if self._known_files[word]:
                yield self._digest(word)

    def _planned(self, cell: Cell) -> PlannedCell:
        row = cell.environment
        interpreter = self._here if row is None else self._interpreters[row.name]
        shared = self._shared_key(cell.asked)
        key = key_of(
            "cell",
            self._digest(cell.model),
            list(cell.flags),
            list(self._contents(cell.flags)),
            dict(interpreter.versions),
            shared,
        )
        return PlannedCell(cell, key, shared, interpreter)

    def _shared_key(self, asked: Asked) -> str:
        if asked.outputs:
            return key_of("given", self._digest(asked.outputs), self._digest(asked.inputs))
        return key_of(
            "shared",
            self._digest(asked.model),
            list(asked.flags),
            list(self._contents(asked.flags)),
            dict(self._here.versions),
        )

    # Command lines.

    def _stem(self, kind: str, key: str) -> str:
        return str(PurePath(self.folder) / kind / key[:2] / key)

    def _run(self, by: Interpreter, stem: str, command: str, model: str, words: Words) -> Words:
        report = ("--report", f"{stem}.report.json")
        return (by.path, "-m", "polygraphy", command, model, *words, *report)

    def shared_job(self, cell: PlannedCell) -> Job | None:
        """Return what makes the inputs and outputs that a cell is compared with; None where they
        are given.
        """
        asked, stem = cell.cell.asked, self._stem("shared", cell.shared_key)
        if asked.outputs:
            return None
        outputs, inputs = self._shared_files(cell)
        words = (*asked.flags, "--save-inputs", inputs, "--save-outputs", outputs)
        command = self._run(self._here, stem, "run", asked.model, words)
        return Job(cell.shared_key, command, stem, self._root, self._here.environment)

    def _shared_files(self, cell: PlannedCell) -> tuple[str, str]:
        """Return the paths of reference outputs and of inputs."""
        asked, stem = cell.cell.asked, self._stem("shared", cell.shared_key)
        if asked.outputs:
            return asked.outputs, asked.inputs
        return f"{stem}.outputs.json", f"{stem}.inputs.json"

    def job(self, cell: PlannedCell, suffix: str = "") -> Job:
        """Return what runs a cell; a suffix tells repetitions apart."""
        outputs, inputs = self._shared_files(cell)
        words = (*cell.cell.flags, "--load-inputs", inputs, "--load-outputs", outputs)
        stem = self._stem("cells", cell.key) + suffix
        return Job(
            cell.key + suffix,
            self._run(cell.interpreter, stem, "run", cell.cell.model, words),
            stem,
            self._root,
            cell.interpreter.environment,
            cell.cell.runner.exclusive,
            cell.cell.runner.gpu,
        )

    def diagnosis(self, cell: PlannedCell) -> Job:
        """Return what finds the cause of a cell that fails: what is right is the reference, which
        is a party where it runs the same model.
        """
        outputs, inputs = self._shared_files(cell)
        asked = cell.cell.asked
        words = (*cell.cell.party, "--load-inputs", inputs)
        if asked.model == cell.cell.model:
            words = (*words, *self.plan.reference.flags)
        elif asked.model:
            words = (*words, "--reference", asked.model)
        else:
            words = (*words, "--golden", outputs)
        key = key_of("diagnosis", cell.key)
        stem = self._stem("diagnoses", key)
        command = self._run(cell.interpreter, stem, "diagnose", cell.cell.model, words)
        return Job(key, command, stem, self._root, cell.interpreter.environment,
                   gpu=cell.cell.runner.gpu)  # fmt: skip

    def shown(self, job: Job) -> str:
        """Return the command line that repeats a job, as one would type it."""
        words = list(job.command)
        del words[words.index("--report") :]
        if words[0] == self._here.path:
            words[:3] = ["polygraphy"]
        line = shlex.join(words)
        return line.replace(self.folder, os.path.relpath(self.folder, self._root))
