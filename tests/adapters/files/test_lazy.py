"""Arrays of a native file are read, and checked, when they are first asked for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.files.formats import binary as safetensors_format
from polygraphy.adapters.files.formats.lazy import StoredArrays, StoredIteration
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.errors import FileError
from polygraphy.domain.results.results import IterationResult, RunResults

A, B = np.arange(3.0), np.arange(4, dtype=np.int64)


def taking(**arrays: Any) -> dict[str, Any]:
    return arrays


@pytest.fixture
def path(tmp_path: Path) -> Path:
    saved = tmp_path / "results.safetensors"
    RunResults([("r", [IterationResult({"a": A, "b": B}, 0.5, "r")])]).save(saved)
    return saved


@pytest.fixture
def outputs(path: Path) -> IterationResult:
    [(_, [outputs])] = RunResults.load(path)
    return outputs


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the tensors that have been read since."""
    read: list[str] = []
    original = safetensors_format.MappedTensor.read

    def recorded(tensor: Any) -> Any:
        read.append(tensor.name)
        return original(tensor)

    monkeypatch.setattr(safetensors_format.MappedTensor, "read", recorded)
    return read


def test_loading_reads_no_array(path: Path, reads: list[str]) -> None:
    [(name, [outputs])] = RunResults.load(path)
    assert (name, list(outputs), len(outputs), "a" in outputs) == ("r", ["a", "b"], 2, True)
    assert (outputs.runtime, outputs.runner_name) == (0.5, "r")
    assert reads == []
    assert outputs["b"].tolist() == B.tolist()
    assert outputs["b"] is outputs["b"], "it is read once"
    assert reads == ["0/b"]


def test_damage_is_reported_of_the_tensor_that_is_asked_for(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    [(_, [outputs])] = RunResults.load(path)
    assert outputs["a"].tolist() == A.tolist()
    with pytest.raises(FileError, match=rf"Could not load .*{path.name}: tensor '0/b' is damaged"):
        _ = outputs["b"]


@pytest.mark.parametrize(
    "take",
    [
        dict,
        lambda outputs: {**outputs},
        lambda outputs: taking(**outputs),
        lambda outputs: outputs.copy(),
        copy.copy,
        lambda outputs: pickle.loads(pickle.dumps(outputs)),
        lambda outputs: outputs | {},
        lambda outputs: {} | outputs,
        lambda outputs: dict(outputs.items()),
        lambda outputs: dict(zip(outputs, outputs.values())),
        lambda outputs: {name: outputs.get(name) for name in list(outputs.keys())},
        lambda outputs: {"b": outputs.popitem()[1], "a": outputs.pop("a")},
        lambda outputs: {"a": outputs.setdefault("a"), "b": outputs.setdefault("b", None)},
        IterationResult,
        lambda outputs: {name: outputs[name] for name in reversed(outputs)},
    ],
)
def test_every_way_to_take_the_arrays_reads_them(
    outputs: IterationResult, take: Callable[[Any], dict[str, Any]]
) -> None:
    assert isinstance(outputs, StoredIteration)
    taken = take(outputs)
    assert np.array_equal(taken["a"], A) and np.array_equal(taken["b"], B)
    assert all(isinstance(array, np.ndarray) for array in dict.values(taken))


def test_what_is_not_there_is_none_of_them(outputs: IterationResult) -> None:
    assert outputs.get("c") is None
    assert outputs.pop("c", 1) == 1
    assert outputs.setdefault("c", 2) == 2
    with pytest.raises(KeyError):
        _ = outputs["d"]
    outputs.clear()
    with pytest.raises(KeyError):
        outputs.popitem()


def test_it_equals_and_shows_what_was_saved(outputs: IterationResult) -> None:
    assert outputs == IterationResult({"a": A, "b": B})
    assert outputs != IterationResult({"a": A, "b": B + 1})
    assert repr(outputs) == repr(IterationResult({"a": A, "b": B}, 0.5, "r"))
    outputs["b"] = A
    assert np.array_equal(outputs["b"], A)


def test_input_data_are_read_likewise(tmp_path: Path, reads: list[str]) -> None:
    path = tmp_path / "inputs.safetensors"
    FileResultStore().save({"a": A, "b": B}, path)
    [feed] = FileResultStore().iterate(path, dict)
    [whole] = FileResultStore().load(path, object)  # type: ignore[misc]
    for found in (feed, whole):
        assert isinstance(found, StoredArrays)
        assert reads == []
        assert found == {"a": A, "b": B}
        assert found != {"a": A, "b": B + 1}
        assert found != 3
        assert repr(found) == repr({"a": A, "b": B})
        assert sorted(reads) == ["a", "b"]
        reads.clear()
