"""Nobody changes what another reads: runners that write to their inputs, loaders and runners that
reuse their arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.fake import FakeRunner, MemoryResultStore
from polygraphy.application.run.feeding import promises
from polygraphy.application.run.inference import run_sequentially, stream
from polygraphy.application.run.layerwise import stream_layerwise
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, DataLoader
from polygraphy.domain.data.loading import own_copy
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.search.layers import Layer
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.editing import open_layered
from tests.application.runs import INPUTS, feed, values
from tests.support.models import make, value

Feed = dict[str, Any]


def zeroed(given: Feed) -> None:
    given["x"][...] = 0


def doubled(given: Feed) -> None:
    given["x"] *= 2


def replaced(given: Feed) -> None:
    given["x"] = given["x"] - 1


def removed(given: Feed) -> None:
    given.clear()


def left_alone(given: Feed) -> None:
    pass


DEEDS: list[Callable[[Feed], None]] = [zeroed, doubled, replaced, removed, left_alone]


class Writer(BaseRunner):
    """A runner of y = x of somebody's own, which then does something to the data."""

    def __init__(self, deed: Callable[[Feed], None], name: str | None = None) -> None:
        super().__init__(name=name, prefix="writer")
        self.deed = deed

    def get_input_metadata_impl(self) -> TensorMetadata:
        return INPUTS

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Feed:
        outputs = {"y": feed_dict["x"].copy()}
        self.deed(feed_dict)  # type: ignore[arg-type]
        return outputs


def streamed(runners: list[Any], data: Any, **how: Any) -> RunResults:
    return RunResults.concat(stream(runners, data, **how))


WAYS = {"streaming": streamed, "in sequence": run_sequentially}


@given(
    deeds=st.lists(st.sampled_from(DEEDS), min_size=1, max_size=4),
    way=st.sampled_from(sorted(WAYS)),
    warm_up=st.integers(0, 2),
    count=st.integers(1, 3),
)
def test_no_runner_changes_the_data_of_another(
    deeds: list[Callable[[Feed], None]], way: str, warm_up: int, count: int
) -> None:
    given = [feed(index + 1.0, -1.0) for index in range(count)]
    how: dict[str, Any] = {"warm_up": warm_up} if way == "in sequence" else {}
    with bind(ResultStore, MemoryResultStore()) as store:
        made = WAYS[way](
            [Writer(deed, f"r{index}") for index, deed in enumerate(deeds)],
            given,
            save_inputs_path="inputs.json",
            **how,
        )
        saved = store.load("inputs.json", list)
    expected = [[index + 1.0, -1.0] for index in range(count)]
    assert values(made) == {f"r{index}": expected for index in range(len(deeds))}
    assert [one["x"].tolist() for one in given] == expected
    assert [one["x"].tolist() for one in saved] == expected


class Derived(FakeRunner):
    """Infers in its own way, and promises nothing."""

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Feed:
        outputs = super().infer_impl(feed_dict)
        feed_dict["x"][...] = 0
        return outputs


class Promising(Derived):
    leaves_inputs_alone = True


def test_a_promise_is_that_of_the_class_that_infers() -> None:
    fake = FakeRunner({})
    assert promises(fake, "leaves_inputs_alone")
    assert not promises(Derived({}), "leaves_inputs_alone")
    assert promises(Promising({}), "leaves_inputs_alone")
    assert not promises(Writer(zeroed), "leaves_inputs_alone")
    assert not promises(object(), "leaves_inputs_alone")
    fake.infer = lambda *args, **kwargs: {}  # type: ignore[method-assign]
    assert not promises(fake, "leaves_inputs_alone")


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_derived_runner_changes_nothing(way: str) -> None:
    made = WAYS[way](
        [Derived(lambda x: {"y": x["x"]}, INPUTS, "a"), Writer(zeroed, "b")], [feed(3)]
    )
    assert values(made) == {"a": [[3.0]], "b": [[3.0]]}


class Layered:
    """y = x in one layer, z = y in the next."""

    inputs = INPUTS
    outputs = ("y", "z")
    resident_weights = 0

    def facts(self) -> ModelFacts:
        return ModelFacts()

    def recompute(self, *_: Any) -> None:
        """Nothing is computed again."""

    def layers(self, shapes: Any) -> list[Layer]:
        return [Layer({"y": 100}, ["x"], {}), Layer({"z": 100}, ["y"], {})]

    def non_boundary_tensors(self) -> set[str]:
        return set()

    def marked_model(self) -> tuple[str, ...]:
        return self.outputs

    def unmarked_model(self) -> tuple[str, ...]:
        return self.outputs

    def part(self, nodes: range, *, outputs: Sequence[str]) -> tuple[str, ...]:
        return self.outputs[nodes.start : nodes.stop]


class Identities(BaseRunner):
    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(prefix="identities")
        self.names = names

    def get_input_metadata_impl(self) -> TensorMetadata:
        return TensorMetadata().add("x" if self.names[0] == "y" else "y", np.float32, ["n"])

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Feed:
        [taken] = feed_dict.values()
        made = {name: taken.copy() for name in self.names}
        taken[...] = -1
        return made


@pytest.mark.parametrize("budget", [1, 1 << 30])
def test_a_runner_of_layers_changes_nothing_of_its_data(budget: int) -> None:
    given = [feed(5.0)]
    with bind(open_layered, lambda *_: Layered()):
        parts = list(
            stream_layerwise([Identities, Identities], "model.onnx", given, memory_budget=budget)
        )
    assert given[0]["x"].tolist() == [5.0]
    assert len(parts) == (2 if budget == 1 else 1)
    for part in parts:
        for _, [outputs] in part:
            assert [output.tolist() for output in outputs.values()] == [[5.0]] * len(outputs)


# What is kept is copied, whatever it is.


class Buffer:
    """A tensor of a library that nobody here knows."""

    dtype = np.dtype(np.float32)

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.array(numbers, np.float32)
        self.shape = self.numbers.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numbers.astype(dtype or np.float32)


class Cloned(Buffer):
    def clone(self) -> Cloned:
        return Cloned(self.numbers)


def test_copies_are_equal_and_apart() -> None:
    plain = np.arange(3.0)
    for data, write in (
        (plain, plain),
        (memoryview(plain), plain),
        ([plain, plain], plain),
        ([[1.0], [2.0]], None),
        (array("f", [1, 2]), None),
        (Buffer([1, 2]), None),
        (Cloned([1, 2]), None),
        (np.array([plain, "a"], object), plain),
    ):
        kept = own_copy(data)
        before = repr(np.asarray(kept))
        if write is not None:
            np.add(write, 1, out=write)
        elif isinstance(data, Buffer):
            data.numbers += 1
        else:
            data[0] = data[1]
        assert repr(np.asarray(kept)) == before
    for same in (7, "text", None, 1.5, np.float32(2)):
        assert own_copy(same) is same


KINDS: dict[str, Callable[[Any], Any]] = {
    "memoryview": memoryview,
    "buffer": lambda numbers: _sharing(Buffer, numbers),
    "cloned": lambda numbers: _sharing(Cloned, numbers),
    "array": lambda numbers: numbers,
}


def _sharing(kind: Any, numbers: Any) -> Any:
    made = kind(numbers)
    made.numbers = numbers
    return made


class Reusing(BaseRunner):
    """Writes every output to the buffer of the one before, of no kind that is known."""

    def __init__(self, kind: str) -> None:
        super().__init__(prefix="reusing")
        self.kind = kind
        self.buffer = np.zeros(1, np.float32)

    def get_input_metadata_impl(self) -> TensorMetadata:
        return INPUTS

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Feed:
        self.buffer[...] = feed_dict["x"]
        return {"y": KINDS[self.kind](self.buffer)}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_iteration_keeps_its_outputs(kind: str) -> None:
    """A runner that reuses its buffer gave as many times its last iteration."""
    made = run_sequentially([Reusing(kind)], [feed(1), feed(2), feed(3)])
    assert [np.asarray(one["y"]).tolist() for one in made[0][1]] == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_iteration_keeps_its_data(kind: str) -> None:
    buffer = np.zeros(1, np.float32)

    def loader() -> Iterator[Feed]:
        for number in (1, 2, 3):
            buffer[...] = number
            yield {"x": KINDS[kind](buffer)}

    class Reader(Writer):
        def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Feed:
            return {"y": np.asarray(feed_dict["x"]).copy()}

    made = run_sequentially([Reader(left_alone, "a"), Reader(left_alone, "b")], loader())
    assert values(made) == {"a": [[1.0], [2.0], [3.0]], "b": [[1.0], [2.0], [3.0]]}


@pytest.mark.slow
@pytest.mark.parametrize("loader", [DataLoader(seed=3), [{"x": np.ones((2, 3), np.float32)}]])
def test_a_process_that_used_a_device_starts_a_new_one_for_a_runner(
    loader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygraphy.adapters.processes import forked, isolated

    monkeypatch.setattr(isolated, "is_fork_safe", lambda: False)
    monkeypatch.setattr(forked, "_fork", lambda: pytest.fail("forked"))
    node, path = onnx.helper.make_node("Neg", ["x"], ["y"]), str(tmp_path / "m.onnx")
    onnx.save(make("neg", [node], [value("x", [2, 3])], [value("y", [2, 3])]), path)
    runners = [OnnxrtRunner(SessionFromOnnx(path)) for _ in range(2)]
    results = Comparator.run(runners, loader, use_subprocess=True)
    assert np.array_equal(results[0][1][0]["y"], results[1][1][0]["y"])
