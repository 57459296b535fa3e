"""Files that hold arrays as they are, not as text: ``.safetensors``, ``.npz`` and ``.npy``.

What is in them is described by the same tree that a JSON file would parse to, in which arrays that
are still in the file take the place of their text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from attrs import frozen

from polygraphy.adapters.files.formats.lazy import Unread
from polygraphy.adapters.files.formats.npy import check_unpacked, with_narrow_type
from polygraphy.adapters.files.formats.safetensors_format import MappedTensor, open_tensors
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.json_codec import ContentError, Decoder
from polygraphy.constants import TYPE_MARKER
from polygraphy.domain.results.results import IterationResult, RunResults

TENSORS = ".safetensors"
"""The extension of files that take inputs or results of a single iteration."""

SUFFIXES = (TENSORS, ".npz", ".npy")
"""Extensions of files that can be read here."""

_LEAF = "ArrayInFile"
_PICKLED = "an array holds pickled Python objects, which are never loaded"
_LONGEST_COMPLAINT = 200


class Undescribed(list[dict[str, Any]]):
    """The tree of a file of nothing but arrays, which does not say whether they are input data or
    results: NumPy's own, or one that another library wrote.
    """

    def as_results(self, name: str) -> Any:
        """Return the tree of the same arrays as results of a runner."""
        made = [
            _iteration(
                leaves,
                {"outputs": dict(zip(leaves, leaves)), "runner_name": name, "runtime": None},
            )
            for leaves in self
        ]
        return {"lst": [[name, made]], TYPE_MARKER: RunResults.__name__}


def parse_binary(path: Path) -> Any:
    """Return the tree that the content of a file stands for, without reading its arrays.

    Raises:
        ContentError: it is truncated, damaged, or not what its extension says.
        OSError: it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == TENSORS:
        tensors, description = open_tensors(path)
        leaves = {name: _leaf(tensor, path) for name, tensor in tensors.items()}
        return Undescribed([leaves]) if description is None else _described(leaves, description)
    if suffix == ".npy":
        return Undescribed([{path.stem: _leaf(_Npy(path), path)}])
    return Undescribed([{name: _leaf(_NpzMember(path, name), path) for name in _members(path)}])


def _leaf(array: MappedTensor | _Npy | _NpzMember, path: Path) -> dict[str, Any]:
    unread = Unread(array, path) if isinstance(array, MappedTensor) else array
    return {"array": unread, TYPE_MARKER: _LEAF}


@Decoder.register(_LEAF)
def _decode_leaf(fields: dict[str, Any]) -> Any:
    """Return what stands for a tensor until it is asked for; other arrays as they are."""
    array: Unread | _Npy | _NpzMember = fields["array"]
    return array if isinstance(array, Unread) else array.read()


def tensors_of(item: Mapping[str, Any] | RunResults) -> tuple[dict[str, Any], Any]:
    """Return the arrays of one iteration by the names that they get in a file, and what else is to
    be remembered.

    Raises:
        ContentError: it is not one iteration, or not one of arrays.
    """
    if not isinstance(item, RunResults):
        return {name: _plain(name, array) for name, array in item.items()}, {
            "inputs": {name: name for name in item}
        }
    tensors: dict[str, Any] = {}
    runs = []
    for index, (runner, iterations) in enumerate(item):
        if len(iterations) != 1:
            raise ContentError(
                f"{runner} has {len(iterations)} iterations, but a {TENSORS} file takes one",
                hint="Save them with a writer, or as JSON.",
            )
        [iteration] = iterations
        outputs = {name: f"{index}/{name}" for name in iteration}
        tensors.update((key, _plain(name, iteration[name])) for name, key in outputs.items())
        runs.append(
            {
                "runner": runner,
                "runner_name": iteration.runner_name,
                "runtime": iteration.runtime,
                "outputs": outputs,
            }
        )
    return tensors, {"runs": runs}


def _plain(name: str, array: Any) -> np.ndarray[Any, Any]:
    if not hasattr(array, "__array__"):
        message = f"tensor {name!r} is of type {type(array).__name__!r}, not an array"
        raise ContentError(message, hint="Convert it with numpy.asarray.")
    return np.asarray(array.detach().cpu() if is_tensor(array) else array)


def _described(leaves: Mapping[str, Any], description: Any) -> Any:
    """Return the tree of a file of this package, in which arrays are `leaves`."""
    try:
        if "inputs" in description:
            inputs = description["inputs"]
            return [{name: leaves[key] for name, key in inputs.items()}]
        runs = [[str(run["runner"]), [_iteration(leaves, run)]] for run in description["runs"]]
    except (AttributeError, KeyError, TypeError) as error:
        raise ContentError("it is damaged: its metadata do not describe its tensors") from error
    return {"lst": runs, TYPE_MARKER: RunResults.__name__}


def _iteration(leaves: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "outputs": {name: leaves[key] for name, key in run["outputs"].items()},
        "runtime": run["runtime"],
        "runner_name": run["runner_name"],
        TYPE_MARKER: IterationResult.__name__,
    }


@frozen
class _Npy:
    """The array in an ``.npy`` file, mapped into memory."""

    path: Path

    def read(self) -> np.ndarray[Any, Any]:
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except OSError:
            raise
        except Exception as error:  # Whatever a parser of Python literals raises.
            raise ContentError(_complaint(error)) from error
        return with_narrow_type(np.asarray(array))


@frozen
class _NpzMember:
    """One array of an ``.npz`` archive."""

    path: Path
    name: str

    def read(self) -> np.ndarray[Any, Any]:
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                array: np.ndarray[Any, Any] = archive[self.name]
        except OSError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy each have their own kinds.
            raise ContentError(f"array {self.name!r}: {_complaint(error)}") from error
        return with_narrow_type(array)


def _members(path: Path) -> list[str]:
    try:
        with ZipFile(path) as archive:
            check_unpacked(archive, path.stat().st_size)
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (BadZipFile, NotImplementedError) as error:
        raise ContentError("it is truncated, damaged, or no .npz archive") from error


def _complaint(error: Exception) -> str:
    text = str(error)
    is_pickled = "allow_pickle" in text or "Python objects" in text
    return _PICKLED if is_pickled else f"it is damaged: {text[:_LONGEST_COMPLAINT]}"
