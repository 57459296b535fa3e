"""The cells of a sweep with their keys, interpreters and command lines."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from attrs import evolve, frozen

from polygraphy.domain.diagnosis.commands import output_path
from polygraphy.domain.errors import BackendError, FileError, MissingFileError, UsageError
from polygraphy.domain.ports import command_line
from polygraphy.domain.sweep.cells import Cell, Job, ReferenceRequest, cells_of, key_of, step_flags
from polygraphy.domain.sweep.plan import WRITING_FLAGS, EnvironmentRow, Plan, Words
from polygraphy.domain.tensors.naming import escape_command, path_word
from polygraphy.ports.models import find_quantized_tensors
from polygraphy.ports.sweeping import (
    digest_of,
    files_named_by,
    install_environment,
    matching_files,
    open_interpreter,
)


@frozen
class Interpreter:
    """A Python interpreter that runs cells, with its arguments and package versions."""

    path: str
    environment: Mapping[str, str]
    versions: Mapping[str, str]


@frozen
class PlannedCell:
    """A cell with its key and the key of its reference.

    Attributes:
        equal_names: the names of other combinations that are the same, such as those of a copy of
            the model.
    """

    cell: Cell
    key: str
    shared_key: str
    interpreter: Interpreter
    equal_names: Sequence[str] = ()


class PlannedSweep:
    """The cells of a plan with their keys, interpreters and command lines.

    Attributes:
        folder: that of the sweep, whole.
        merged: the number of combinations that equal others.
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
        self._named_files: dict[str, list[str]] = {}
        self._here = self._open_interpreter(None)
        self._interpreters = {row.name: self._open_interpreter(row) for row in plan.environments}
        listed = [self._plan_cell(cell) for cell in cells_of(plan, self._models())]
        same: dict[str, list[PlannedCell]] = {}
        for planned_cell in listed:
            same.setdefault(planned_cell.key, []).append(planned_cell)
        self.cells = [
            evolve(first, equal_names=[other.cell.name for other in other_cells])
            for first, *other_cells in same.values()
        ]
        self.merged = len(listed) - len(self.cells)

    def _models(self) -> list[str]:
        """Return the paths of the models; raise UsageError if a pattern matches none."""
        models: dict[str, None] = {}
        for pattern in self.plan.models:
            matches = matching_files(self._root, pattern)
            if not matches:
                raise UsageError(
                    f"No model matches {pattern!r}.", hint=f"Patterns are relative to {self._root}."
                )
            models.update(dict.fromkeys(matches))
        return list(models)

    def _open_interpreter(self, row: EnvironmentRow | None) -> Interpreter:
        """Return an environment's interpreter; the current one for None."""
        try:
            path = ""
            if row is not None:
                path = self._resolve_path(row.path or row.requirements)
            if row is not None and row.requirements:
                path = install_environment(path, self.folder)
            return Interpreter(*open_interpreter(path, self.folder))
        except (FileError, BackendError) as error:
            raise UsageError(f"Environment {row.name if row else 'here'!r}: {error}") from error

    def _resolve_path(self, path: str) -> str:
        """Return a path of the plan, resolved against the root."""
        return str(PurePath(self._root) / path)

    def _digest(self, path: str) -> str:
        """Return the digest of a file; raise UsageError if it does not exist."""
        if path not in self._digests:
            try:
                self._digests[path] = digest_of(self._resolve_path(path))
            except MissingFileError as error:
                raise UsageError(f"The plan refers to a missing item: {error}") from error
        return self._digests[path]

    def _contents(self, flags: Words) -> Iterator[str]:
        """Yield hashes of the input files that flags refer to."""
        flag = ""
        for word in flags:
            flag = word.partition("=")[0] if word.startswith("--") else flag
            if flag in WRITING_FLAGS:
                continue
            if word not in self._named_files:
                self._named_files[word] = files_named_by(self._root, word)
            yield from map(self._digest, self._named_files[word])

    def _plan_cell(self, cell: Cell) -> PlannedCell:
        """Return a cell with its key and the interpreter that runs it."""
        row = cell.environment
        interpreter = self._here if row is None else self._interpreters[row.name]
        shared = self._reference_key(cell.asked)
        key = key_of(
            "cell",
            self._digest(cell.model),
            list(cell.flags),
            list(self._contents(cell.flags)),
            dict(interpreter.versions),
            shared,
        )
        return PlannedCell(cell, key, shared, interpreter)

    def _reference_key(self, request: ReferenceRequest) -> str:
        """Return the key of a reference, which cells share."""
        if request.outputs:
            return key_of("given", self._digest(request.outputs), self._digest(request.inputs))
        return key_of(
            "shared",
            self._digest(request.model),
            list(request.flags),
            list(self._contents(request.flags)),
            dict(self._here.versions),
        )

    def _stem(self, kind: str, key: str) -> str:
        """Return the path of a result without its extension."""
        return str(PurePath(self.folder) / kind / key[:2] / key)

    def _command_words(
        self, by: Interpreter, stem: str, command: str, model: str, words: Words
    ) -> Words:
        """Return the words of the command that runs a model and writes a report."""
        report = ("--report", f"{stem}.report.json")
        return (by.path, "-m", "polygraphy", command, path_word(model), *words, *report)

    def reference_job(self, cell: PlannedCell) -> Job | None:
        """Return the job that creates the reference inputs and outputs of a cell, or None.
        The result is None if the plan provides them.
        """
        request, stem = cell.cell.asked, self._stem("shared", cell.shared_key)
        if request.outputs:
            return None
        outputs, inputs = self._reference_files(cell)
        words = (*request.flags, "--save-inputs", inputs, "--save-outputs", outputs)
        command = self._command_words(self._here, stem, "run", request.model, words)
        return Job(cell.shared_key, command, stem, self._root, self._here.environment)

    def _reference_files(self, cell: PlannedCell) -> tuple[str, str]:
        """Return the paths of reference outputs and inputs."""
        request, stem = cell.cell.asked, self._stem("shared", cell.shared_key)
        if request.outputs:
            return path_word(request.outputs), path_word(request.inputs)
        return f"{stem}.outputs.json", f"{stem}.inputs.json"

    def job(self, cell: PlannedCell, suffix: str = "") -> Job:
        """Return the job for a cell; `suffix` distinguishes repetitions."""
        outputs, inputs = self._reference_files(cell)
        words = (*cell.cell.flags, "--load-inputs", inputs, "--load-outputs", outputs)
        stem = self._stem("cells", cell.key) + suffix
        return Job(
            cell.key + suffix,
            self._command_words(cell.interpreter, stem, "run", cell.cell.model, words),
            stem,
            self._root,
            cell.interpreter.environment,
            cell.cell.runner.exclusive,
            cell.cell.runner.gpu,
        )

    def profile_job(self, cell: PlannedCell, runs: int, suffix: str = "") -> Job:
        """Return the job that profiles the nodes of a cell; nothing runs in parallel."""
        base = self.job(cell, f".profile{runs}{suffix}")
        _, inputs = self._reference_files(cell)
        words = (*cell.cell.party, *step_flags(self.plan.flags), "--load-inputs", inputs)
        words = (*words, "--profile", str(runs), "--save-profile", f"{base.stem}.nodes.json")
        command = self._command_words(cell.interpreter, base.stem, "run", cell.cell.model, words)
        return evolve(base, command=command, exclusive=True)

    def diagnosis(self, cell: PlannedCell) -> Job:
        """Return the diagnosis job for a failed cell.
        Its oracle is the reference, or a backend running the same model.
        """
        outputs, inputs = self._reference_files(cell)
        request = cell.cell.asked
        words: Words = (*cell.cell.party, "--load-inputs", inputs)
        goal: Words = ()
        if request.model == cell.cell.model:
            words = (*words, *self.plan.reference.flags)
        elif request.model:
            if find_quantized_tensors(self._resolve_path(cell.cell.model)):
                goal = ("--within", f"{self.plan.within:g}")
            words = (*words, "--reference", path_word(request.model), *goal)
        else:
            words = (*words, "--golden", outputs)
        key = key_of("diagnosis", cell.key, *goal)
        stem = self._stem("diagnoses", key)
        command = self._command_words(cell.interpreter, stem, "diagnose", cell.cell.model, words)
        return Job(key, command, stem, self._root, cell.interpreter.environment,
                   gpu=cell.cell.runner.gpu)  # fmt: skip

    def saving_command(self, cell: PlannedCell) -> str:
        """Return the command line that diagnoses a failed cell again and saves the corrected model.
        The result is empty if the diagnosis cannot save one.
        """
        job = self.diagnosis(cell)
        end = job.command.index("--report")
        save = output_path(cell.cell.model, "_fixed.onnx")
        if not command_line("diagnose", job.command[4:end], {"save": save}):
            return ""
        return self.command_line(evolve(job, command=(*job.command[:end], "--save", path_word(save),
                                                      *job.command[end:])))  # fmt: skip

    def command_line(self, job: Job) -> str:
        """Return the command line that repeats a job."""
        words = list(job.command)
        del words[words.index("--report") :]
        if words[0] == self._here.path:
            words[:3] = ["polygraphy"]
        # The package is not installed in the environment, so its interpreter runs the linked one.
        else:
            words[1:3] = job.environment["PYTHONPATH"].split(os.pathsep)[:1]
        folder = path_word(os.path.relpath(self.folder, self._root))
        return escape_command(shlex.join(word.replace(self.folder, folder) for word in words))
