from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import FakeRunner, RecordingConsole
from polygraphy.application.compare.comparator import Comparator
from polygraphy.application.run.feeding import Feeds, InputAdapter, facts_of
from polygraphy.binding import bind
from polygraphy.domain.data.loading import ONLY_FIRST
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import BackendError, InputError, UsageError
from polygraphy.domain.ports import Tensors
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.application.runs import INPUTS, doubler, feed


@pytest.fixture
def fit(console: RecordingConsole) -> Any:
    with doubler("a") as runner:
        yield InputAdapter(runner, console)


# Fitting.


def test_data_that_fit_are_passed_on_as_they_are(fit: Any, console: RecordingConsole) -> None:
    for count in (1, 1, 3):
        data = feed(*range(count))
        assert fit(data)["x"] is data["x"]
    assert console.events == []


def test_data_that_do_not_fit_are_fitted_and_that_is_reported_once(
    fit: Any, console: RecordingConsole
) -> None:
    for number in (1.0, 2.0):
        fitted = fit({"data": np.array([number])})
        assert list(fitted) == ["x"]
        assert fitted["x"].dtype == np.float32
        assert fitted["x"].tolist() == [number]
    notes = [text for (text,) in console.arguments_of("note")]
    assert notes == [
        "a | Input 'x' uses the data named 'data'.",
        "a | Input 'x' was cast from float64 to float32.",
    ]


def test_data_that_fit_once_do_not_excuse_what_follows(fit: Any) -> None:
    for _ in range(2):
        fit(feed(1))
        with pytest.raises(InputError, match="'x'"):
            fit({"x": np.array(["text"])})
        assert fit({"x": np.array([3])})["x"].dtype == np.float32


def test_what_nobody_asks_for_is_dropped_every_time(fit: Any) -> None:
    for _ in range(2):
        assert list(fit({**feed(1), "extra": np.zeros(1)})) == ["x"]


def test_data_that_cannot_fit_are_explained(fit: Any) -> None:
    with pytest.raises(InputError, match="'x'"):
        fit({"x": np.array([1e300])})
    with pytest.raises(InputError, match="not found in the data: 'x'"):
        fit({})


def test_a_fitter_asks_its_runner_once_for_data_of_one_kind() -> None:
    asked = []

    class Asked(FakeRunner):
        def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
            asked.append(use_numpy_dtypes)
            return super().get_input_metadata(use_numpy_dtypes)

    with Asked({}, INPUTS) as runner:
        fit = InputAdapter(runner, RecordingConsole())
        for _ in range(5):
            fit(feed(1, 2))
        assert asked == [False]
        fit(feed(1))
        assert asked == [False, False]


# Telling the data loader.


class Loader(SimpleNamespace):
    """A data loader with data of its own, which wants to know what the model asks for."""

    def __iter__(self) -> Iterator[Any]:
        return iter([feed(1), feed(2)])


def test_a_loader_that_wants_to_know_is_reported_about_the_first_runner(
    console: RecordingConsole,
) -> None:
    other = FakeRunner({}, TensorMetadata().add("other", np.int8, ()))
    with doubler("a") as first, other as second:
        loader = DataLoader()
        Feeds(loader, console).describe_model_inputs([first, second])
        assert loader.input_metadata == first.get_input_metadata(use_numpy_dtypes=False)
        Feeds(loader, console).describe_model_inputs([])
        assert list(loader.input_metadata or ()) == ["x"]


def test_what_a_loader_does_with_it_does_not_reach_the_runner(console: RecordingConsole) -> None:
    with doubler("a") as runner:
        loader = Loader(input_metadata=None)
        Feeds(loader, console).describe_model_inputs([runner])
        loader.input_metadata.clear()
        assert list(runner.get_input_metadata()) == ["x"]


@pytest.mark.parametrize("loader", [[feed(1)], (feed(i) for i in range(1, 3)), Loader()])
def test_a_loader_that_does_not_want_to_know_is_left_alone(
    console: RecordingConsole, loader: Any
) -> None:
    with doubler("a") as runner:
        feeds = Feeds(loader, console)
        feeds.describe_model_inputs([runner])
        assert feeds.current["x"].tolist() == feed(1)["x"].tolist()
        assert not hasattr(loader, "input_metadata")


def test_a_loader_without_data_is_reported_when_they_are_needed(console: RecordingConsole) -> None:
    with doubler("a") as runner, pytest.raises(UsageError, match="the data loader is empty"):
        Feeds([], console).describe_model_inputs([runner])


def test_a_loader_that_is_none_is_reported(console: RecordingConsole) -> None:
    with pytest.raises(UsageError, match="The data loader must be iterable, not a NoneType"):
        Feeds(None, console)


# Taking the data one after another.


@pytest.mark.parametrize("count", [1, 2])
def test_that_only_the_first_data_are_used_is_reported_once(
    console: RecordingConsole, count: int
) -> None:
    reported: set[str] = set()
    for _ in range(2):
        feeds = Feeds([feed(1)] * count, console, reported)
        feeds.describe_model_inputs([])
        feeds.report_unused_data()
        assert feeds.current["x"].tolist() == feed(1)["x"].tolist()
    assert console.arguments_of("note") == ([(ONLY_FIRST,)] if count > 1 else [])


def test_data_are_taken_one_by_one(console: RecordingConsole) -> None:
    data = [feed(1), feed(2)]
    feeds = Feeds(data, console)
    for expected in data:
        assert feeds.advance()
        assert feeds.current is expected
    assert not feeds.advance()


def test_an_empty_dictionary_is_no_end(console: RecordingConsole) -> None:
    feeds = Feeds([{}, {}], console)
    assert feeds.advance()
    assert feeds.current == {}
    assert feeds.advance()
    assert not feeds.advance()


@pytest.mark.parametrize("wrong", [np.zeros(1), [feed(1)], "text", 5], ids=["array", "list", "text", "5"])  # fmt: skip
def test_a_loader_yields_dictionaries(console: RecordingConsole, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"not {type(wrong).__name__}.*Yield"):
        Feeds([wrong], console).advance()


def test_an_error_of_the_loader_passes(console: RecordingConsole) -> None:
    def broken() -> Any:
        raise KeyError("mine")
        yield

    with pytest.raises(KeyError, match="mine"):
        Feeds(broken(), console).advance()


def test_what_the_loader_assumed_is_reported_once(console: RecordingConsole) -> None:
    loader = DataLoader(iterations=3)
    loader.input_metadata = INPUTS
    feeds = Feeds(loader, console)
    while feeds.advance():
        pass
    assert len(console.arguments_of("note")) == 1
    assert "Will use shape: [1]" in console.arguments_of("note")[0][0]


def test_all_data_are_copied(console: RecordingConsole) -> None:
    reused = feed(1)
    feeds = Feeds([reused, reused], console)
    feeds.advance()
    first, second = feeds.copy_remaining()
    reused["x"][...] = 7
    assert first["x"].tolist() == second["x"].tolist() == feed(1)["x"].tolist()
    assert not feeds.advance()


# Tensors of other libraries, and what is known of models.


def test_tensors_of_other_libraries_reach_a_runner_as_arrays(fit: Any) -> None:
    made = type("Tensor", (), {"__module__": "some_library.core"})()
    tensors = SimpleNamespace(to_array=lambda tensor: np.ones(2, np.float32))
    with bind(Tensors, tensors, "some_library"):
        assert fit({"x": made})["x"].tolist() == [1, 1]
    with pytest.raises(InputError, match="must be an array"):
        fit({"x": made})


def test_a_loader_that_wants_to_know_is_reported_what_is_known_of_the_model(
    console: RecordingConsole,
) -> None:
    facts = ModelFacts({"": "float16"})
    with doubler("a") as runner:
        loader = DataLoader()
        runner.get_model_facts = lambda: facts
        Feeds(loader, console).describe_model_inputs([runner])
        assert loader.model_facts is facts
        assert facts_of(runner) is facts
    assert facts_of(doubler("b")) == ModelFacts()


@pytest.mark.parametrize("streaming", [True, False])
def test_an_error_says_which_shapes_nobody_gave(streaming: bool) -> None:
    inputs = TensorMetadata().add("x", np.float32, [1, "n", None])

    def run(**how: Any) -> None:
        error = BackendError("Pad reflect requires axis length >= 2")
        runner = FakeRunner({"y": np.ones(1)}, inputs, fail_at=0, error=error)
        list(Comparator.run([runner], DataLoader(**how), streaming=streaming or None))

    with pytest.raises(
        BackendError, match=r"The shapes of the data are x:1x1x1, .*--input-shapes x:1x64x64$"
    ):
        run()
    with pytest.raises(BackendError) as caught:
        run(input_metadata=TensorMetadata().add("x", np.float32, [1, 4, 5]))
    assert "--input-shapes" not in str(caught.value)
