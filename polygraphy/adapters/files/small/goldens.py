"""Golden files: saved outputs with which tests compare. A file contains the results of one
iteration, as ``--load-outputs`` reads them, and a description of the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict, field, frozen

from polygraphy.adapters.files.formats.binary import open_tensors, tensors_of, write_tensors
from polygraphy.adapters.files.json.json_codec import ContentError, translate_content_errors
from polygraphy.adapters.os.paths import atomic_file, translate_os_errors
from polygraphy.domain.errors import DamagedFileError, UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.precision import is_float

MOST_BYTES = 5_000_000
"""Largest size of a golden, because it is committed to a repository."""
_STATISTICS = ("min", "mean", "max", "rms")
_KEY = "golden"


@frozen
class Golden:
    """The model, inputs and settings of a golden file.

    Attributes:
        model: SHA-256 of the file of the model.
        inputs: SHA-256 of the input data.
        versions: of packages, by name.
        rtol: the relative tolerance: see `SimpleCompareFunc`.
        atol: the same.
        shapes: of all outputs.
        sampled: the number of elements saved of large outputs.
    """

    model: str
    inputs: str
    versions: Mapping[str, str] = field(factory=dict)
    rtol: float | str = "auto"
    atol: float | str = "auto"
    shapes: Mapping[str, list[int]] = field(factory=dict)
    sampled: Mapping[str, int] = field(factory=dict)

    def select_elements(self, outputs: IterationResult) -> IterationResult:
        """Return the part of each output that a golden file keeps:
        all elements, or a sample and statistics.
        """
        elements: dict[str, Any] = {}
        for name, array in outputs.items():
            count = self.sampled.get(name)
            if count is None:
                elements[name] = array
                continue
            flat = np.asarray(array).reshape(-1)
            elements[name] = flat[_sample_indices(flat.size, count)]
            if is_float(flat) or flat.dtype.kind in "iu":
                wide = flat.astype(np.float64)
                statistics = wide.min(), wide.mean(), wide.max(), np.sqrt(np.mean(wide * wide))
                elements[f"{name} ({', '.join(_STATISTICS)})"] = np.array(statistics, np.float32)
        return outputs.with_outputs(elements)


def _sample_indices(size: int, count: int) -> Any:
    """Return the indices of the sampled elements, the same for the same size on every machine."""
    return np.sort(np.random.RandomState(size % 2**32).choice(size, count, replace=False))


def hash_of_inputs(feed: Mapping[str, Any]) -> str:
    """Return the SHA-256 of input data: of names, data types, shapes and elements."""
    digest = hashlib.sha256()
    for name, data in sorted(feed.items()):
        array = np.ascontiguousarray(data)
        content = repr(array.tolist()).encode() if array.dtype.kind in "OUS" else array.tobytes()
        digest.update(f"{name} {array.dtype.name} {array.shape} ".encode() + content)
    return digest.hexdigest()


def save_golden(path: Path, golden: Golden, runner: str, outputs: IterationResult) -> None:
    """Write the outputs of a runner as a golden file.

    Raises:
        UsageError: it is too large for a repository.
        FileError: it cannot be written.
    """
    with translate_content_errors(f"save to {path}", path):
        tensors, description = tensors_of(RunResults([(runner, [outputs])]))
        size = sum(np.asarray(array).nbytes for array in tensors.values())
        if size > MOST_BYTES:
            raise UsageError(
                f"The golden file {path} would be {size / 1000000.0:.1f} MB; the limit is"
                f" {MOST_BYTES / 1000000.0:.0f} MB.",
                hint="Keep a sample of each output: --polygraphy-golden-sample 1000.",
            )
        with translate_os_errors(path, "create the folder of"):
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as stream:
            write_tensors(stream, tensors, {**description, _KEY: asdict(golden)})


def golden_in(path: Path) -> Golden:
    """Return the description of a golden file.

    Raises:
        FileError: it is damaged, or not a golden file.
    """
    with translate_content_errors(f"load {path}", path), translate_os_errors(path, "read"):
        _, description = open_tensors(path)
        if not isinstance(description, Mapping) or _KEY not in description:
            raise ContentError("it is not a golden file: its metadata is missing")
        try:
            return Golden(**description[_KEY])
        except TypeError as error:
            raise DamagedFileError(
                f"Could not load {path}: it is damaged, or from a different version.",
                path=path,
                hint="Create it again: --polygraphy-update-golden.",
            ) from error


_MOST_COMMITS = 5
_GIT_SECONDS = 10.0


def commit_with_model(file: Path, golden: Golden, model: Path) -> str:
    """Return the commit, among the last ones that changed a golden, that contains its model.
    The result is empty if git does not know it.

    Args:
        file: the path of the golden.
        golden: its contents.
        model: the path of the model, which has changed since.
    """
    file, model = file.resolve(), model.resolve()
    words = ["log", "--format=%h", f"-n{_MOST_COMMITS}", "--", file.name]
    for commit in _git_output(words, file.parent).decode("ascii", "replace").split():
        content = _git_output(["show", f"{commit}:./{model.name}"], model.parent)
        if hashlib.sha256(content).hexdigest() == golden.model:
            return commit
    return ""


def _git_output(words: Sequence[str], folder: Path) -> bytes:
    """Return the output of git; empty if it fails."""
    import subprocess  # Imported here, because only failures use it.

    try:
        completed_process = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, check=False, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    return b"" if completed_process.returncode else completed_process.stdout
