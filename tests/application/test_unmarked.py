"""Marking tensors as outputs hides what a backend does to them otherwise. A run over
layers also runs the model as it is, and its verdict is never better than that of the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.adapters.fake import FakeRunner, RecordingConsole
from polygraphy.application.compare.comparator import Comparator
from polygraphy.application.run.layerwise import WithUnmarked
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.ports.editing import open_layered
from polygraphy.ports.machine import free_memory
from tests.application.runs import INPUTS, counting_up
from tests.support.layered_chain import SIZE, Chain, Opened, Workshop

NAMES = ("t0", "t1", "t2", "t3")


class Rewriter(Workshop):
    """Makes runners of a backend that rewrites a model wrongly where nothing keeps it from that."""

    def __init__(self, name: str, error: float) -> None:
        super().__init__(name)
        self.error = error

    def __call__(self, model: Any) -> FakeRunner:
        if model != "as it is":
            return super().__call__(model)

        def compute(fed: Mapping[str, Any]) -> dict[str, Any]:
            return {"t3": fed["x"] + np.float32(4 + self.error)}

        self.made.append(("t3",))
        self.runners.append(FakeRunner(compute, INPUTS, name=f"{self.name} as it is"))
        return self.runners[-1]


@pytest.fixture(autouse=True)
def _model() -> Iterator[None]:
    with bind(open_layered, Opened(Chain())), bind(free_memory, lambda: 0):
        yield


def run(*makers: Workshop, iterations: int = 1, budget: int = SIZE * 8, **how: Any) -> Any:
    return Comparator.run_layerwise(
        makers, "model.onnx", counting_up(iterations), memory_budget=budget, **how
    )


def marking_notes(console: RecordingConsole) -> list[str]:
    return [text for (text,) in console.arguments_of("note") if "Marking" in text]


@pytest.mark.parametrize("budget", [0, SIZE * 4, SIZE * 8])
@pytest.mark.parametrize("iterations", [1, 3])
def test_the_outputs_are_those_of_the_model_as_it_is(
    budget: int, iterations: int, console: RecordingConsole
) -> None:
    makers = Rewriter("a", error=0.5), Rewriter("b", error=0.0)
    results = run(*makers, budget=budget, iterations=iterations)
    assert not Comparator.compare_accuracy(results)
    notes = marking_notes(console)
    assert len(notes) == 1 and "'t3'" in notes[0] and notes[0].startswith("a as it is")
    assert Comparator.compare_accuracy(run(*makers, budget=budget, unmarked=False))


def test_nothing_is_noted_where_marking_changes_nothing(console: RecordingConsole) -> None:
    assert Comparator.compare_accuracy(run(Rewriter("a", 0.0), Rewriter("b", 0.0)))
    assert not marking_notes(console)


def test_the_model_as_it_is_stays_loaded_where_the_segments_do() -> None:
    a = Rewriter("a", 0.0)
    list(run(a, Rewriter("b", 0.0), iterations=3))
    assert a.made == [("t3",), NAMES]


def test_a_model_that_cannot_be_run_as_it_is_is_not_passed() -> None:
    class Refusing(Rewriter):
        def __call__(self, model: Any) -> FakeRunner:
            runner = super().__call__(model)
            return FakeRunner({}, INPUTS, fail_at=-1) if model == "as it is" else runner

    with pytest.raises(BackendError):
        Comparator.compare_accuracy(run(Refusing("a", 0.0), Rewriter("b", 0.0)))


@given(
    marked=st.lists(st.sampled_from("abcy"), unique=True, min_size=1),
    error=st.sampled_from([0.0, 1.0]),
    excluded=st.lists(st.sampled_from(["y", "z*"])),
    streaming=st.booleans(),
    allows_missing=st.booleans(),
)
@settings(deadline=None)
def test_a_verdict_over_marked_tensors_is_never_better_than_that_of_the_outputs(
    marked: list[str], error: float, excluded: list[str], streaming: bool, allows_missing: bool
) -> None:
    def runner(error: float) -> WithUnmarked:
        values = {name: np.float32(ord(name)) for name in marked}
        own = {"y": np.float32(ord("y") + error)}
        return WithUnmarked(FakeRunner(values), FakeRunner(own), exclude_outputs=excluded)

    runners = [runner(error), runner(0.0)]
    found: Any = list(Comparator.run(runners, [{}, {}], streaming=streaming or None))
    results = [step[0][1][0] for step in found] if streaming else found[0][1]
    assert all(set(outputs) == set(marked) for outputs in results)
    stream = iter(found) if streaming else Comparator.run(runners, [{}, {}])
    verdict = Comparator.compare_accuracy(stream, allow_missing_outputs=allows_missing)
    is_judged = "y" in marked or "y" not in excluded
    assert bool(verdict) == (error == 0 or not is_judged)
    expected = set(marked) | ({"y"} if is_judged and error else set())
    assert set(verdict.output_names()) == expected


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_model_of_marked_tensors_in_half_precision_is_known(dtype: str) -> None:
    """Accumulated rounding is measured with it, as of outputs that are not marked."""

    class Known(FakeRunner):
        def get_model_facts(self) -> ModelFacts:
            return ModelFacts({"": dtype}, source="marked.onnx")

    facts = WithUnmarked(Known({}), Known({})).get_model_facts()
    assert facts.source == ("marked.onnx" if dtype == "float16" else None)


def test_a_joined_runner_is_a_runner() -> None:
    marked = FakeRunner({"y": np.zeros(1)}, INPUTS, name="m")
    broken = FakeRunner({}, fail_at=-1)
    joined = WithUnmarked(marked, broken)
    with pytest.raises(BackendError):
        joined.activate()
    assert not marked.is_active and not joined.is_active
    joined = WithUnmarked(marked, FakeRunner({"y": np.ones(1)}, INPUTS))
    joined.name = "other"
    with joined:
        assert joined.is_active and marked.name == "other"
        assert joined.get_input_metadata(use_numpy_dtypes=False) == INPUTS
        assert joined.infer({"x": np.zeros(1, np.float32)})["y"] == 1
        assert joined.last_inference_time() == 1e-3
        assert joined.last_device_times() is None
    assert not marked.is_active


@pytest.mark.parametrize(
    "saved", [{"y": 1.0}, {"b": 5.0, "y": 1.0}, {"a": 4.0, "b": 5.0, "y": 1.0}]
)
@pytest.mark.parametrize(("error", "allows_missing"), [(0.5, True), (0.5, False), (0.0, True)])
@pytest.mark.parametrize("is_first", [True, False])
def test_saved_outputs_judge_those_that_were_not_chosen(
    saved: dict[str, float], error: float, allows_missing: bool, is_first: bool
) -> None:
    runner = WithUnmarked(
        FakeRunner({"b": np.float32(5)}), FakeRunner({"y": np.float32(1 + error)}), ()
    )
    loaded = RunResults()
    loaded.add([{name: np.float32(value) for name, value in saved.items()}], runner_name="saved")
    runs = [Comparator.run([runner], [{}]), loaded]
    verdict = Comparator.compare_accuracy(
        runs if is_first else runs[::-1], allow_missing_outputs=allows_missing
    )
    assert bool(verdict) == (error == 0)
    assert "y" in verdict.output_names()


@pytest.mark.parametrize("ending", [".json", ".safetensors"])
def test_outputs_that_marking_changes_are_saved_both_ways(tmp_path: Path, ending: str) -> None:
    values = {"a": np.ones(2, np.float32), "same": np.ones(1), "y": np.ones(3, np.float32)}
    own = {"y": np.full(3, 1.5, np.float32), "same": np.ones(1)}
    runner = WithUnmarked(FakeRunner(values), FakeRunner(own))
    Comparator.run([runner], [{}], save_outputs_path=str(tmp_path / f"results{ending}"))
    [[(_, [outputs])]] = RunResults.load_streaming(str(tmp_path / f"results{ending}"))
    assert {name: float(array[0]) for name, array in outputs.items()} == {
        "a": 1, "same": 1, "y": 1.5,
    }  # fmt: skip
    assert {name: float(array[0]) for name, array in outputs.marked_outputs.items()} == {"y": 1}
