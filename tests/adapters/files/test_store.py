"""What is special to files: log lines, names, folders, damage, and the words for each complaint."""

from __future__ import annotations

import gc
import json
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.adapters.files.store.writers import ENDING, PLAIN_MEMBER
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.errors import FileError
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tactics import TacticReplay
from polygraphy.logger import G_LOGGER

STORE = FileResultStore()


@pytest.fixture(autouse=True)
def _in_fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    for name in ("info", "progress"):
        monkeypatch.setattr(G_LOGGER, name, lines.append)
    return lines


def results(count: int = 2, size: int = 3) -> RunResults:
    return RunResults(
        (name, [IterationResult({"y": np.arange(float(size)) + step}) for step in range(count)])
        for name in ("a", "b")
    )


def feeds(count: int = 2) -> list[dict[str, Any]]:
    return [{"x": np.full(3, step)} for step in range(count)]


def write_all(dest: str, items: Any, kind: type) -> None:
    with STORE.writer(dest, kind) as writer:
        for item in items:
            writer.add(item)


def test_is_bound_to_the_port() -> None:
    assert isinstance(resolve(ResultStore), FileResultStore)
    results().save("results.json")
    assert RunResults.load("results.json") == results()
    assert RunResults.from_json(results().to_json()) == results()
    assert list(RunResults.load_streaming("results.json")) == list(results().split())


# Log lines.


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (results(), "inference results"),
        (feeds(), "input data"),
        (feeds()[0], "input data"),
        (AccuracyResults(), "accuracy results"),
        (TacticReplay(), "tactic replay file"),
    ],
)
def test_saving_and_loading_are_logged(value: Any, name: str, log: list[str]) -> None:
    STORE.save(value, "value.json")
    STORE.load(Path("value.json"), type(value))
    assert log == [f"Saving {name} to value.json", f"Loading {name} from value.json"]


def test_iterations_are_logged_once(log: list[str]) -> None:
    write_all("folder", feeds(3), dict)
    list(STORE.iterate("folder", dict))
    write_all("results.json", results().split(), RunResults)
    list(STORE.iterate("results.json", RunResults))
    assert log == [
        "Saving input data to folder",
        "Loading input data from folder",
        "Saving inference results to results.json",
        "Loading inference results from results.json",
    ]


def test_text_is_not_logged(log: list[str]) -> None:
    STORE.loads(STORE.dumps(results()), RunResults)
    assert not log


# Files.


def test_a_saved_file_has_the_text_of_dumps() -> None:
    STORE.save(results(), "results.json")
    assert Path("results.json").read_text() == STORE.dumps(results())


@pytest.mark.parametrize("runners", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_written_file_of_results_has_the_same_bytes_as_a_saved_one(
    runners: int, count: int
) -> None:
    whole = RunResults(
        (
            f'runner "{index}" é',
            [IterationResult({"y": np.full(50_000, step + index)}) for step in range(count)],
        )
        for index in range(runners)
    )
    write_all("written.json", whole.split() if runners else [RunResults()], RunResults)
    STORE.save(whole, "saved.json")
    written, _, plain = Path("written.json").read_bytes().partition(PLAIN_MEMBER)
    assert bool(plain) == bool(runners)
    assert written + ENDING * bool(runners) == Path("saved.json").read_bytes()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_written_file_of_inputs_has_the_same_bytes_as_a_saved_one(count: int) -> None:
    write_all("written.json", feeds(count), dict)
    STORE.save(feeds(count), "saved.json")
    assert Path("written.json").read_bytes() == Path("saved.json").read_bytes()


def test_no_results_have_the_same_bytes() -> None:
    write_all("written.json", [], RunResults)
    assert Path("written.json").read_text() == STORE.dumps(RunResults())


def test_folders_that_lead_to_a_file_are_made() -> None:
    STORE.save(results(), "some/where/results.json")
    write_all("else/where/results.json", results().split(), RunResults)
    write_all("third/where", results().split(), RunResults)
    for source in ("some/where/results.json", "else/where/results.json", "third/where"):
        assert len(list(STORE.iterate(source, RunResults))) == 2


def test_a_symbolic_link_stays_one() -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/real.json").write_text("before")
    Path("link.json").symlink_to("elsewhere/real.json")
    write_all("link.json", results().split(), RunResults)
    assert Path("link.json").is_symlink()
    assert RunResults.load("elsewhere/real.json") == results()
    assert os.listdir("elsewhere") == ["real.json"]


def test_pipes_are_written_and_read() -> None:
    os.mkfifo("pipe")
    received: list[Any] = []
    reader = threading.Thread(target=lambda: received.append(STORE.load("pipe", RunResults)))
    reader.start()
    write_all("pipe", results().split(), RunResults)
    reader.join(10)
    assert received == [results()]


@pytest.mark.skipif(os.name != "posix", reason="there are no such devices")
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices_are_not_read(path: str) -> None:
    with pytest.raises(FileError, match=f"{path} is a device"):
        STORE.load(path, RunResults)


# Folders.


def test_files_of_a_folder_are_numbered() -> None:
    write_all("inputs", feeds(11), dict)
    assert sorted(os.listdir("inputs")) == [f"{index:010}.json" for index in range(11)]
    assert list(json.loads(Path("inputs/0000000000.json").read_text())) == ["x"]
    write_all("results", results(2).split(), RunResults)
    assert RunResults.load("results/0000000001.json") == list(results(2).split())[1]


def test_a_folder_that_is_there_may_have_an_extension() -> None:
    Path("results.v1").mkdir()
    write_all("results.v1", results().split(), RunResults)
    assert sorted(os.listdir("results.v1")) == ["0000000000.json", "0000000001.json"]


def test_files_of_a_folder_may_hold_several_iterations_and_other_files_lie_beside() -> None:
    Path("mixed").mkdir()
    STORE.save(feeds(2), "mixed/b.json")
    STORE.save(feeds(1)[0], "mixed/a.json")
    Path("mixed/README.md").write_text("hello")
    assert [feed["x"][0] for feed in STORE.iterate("mixed", dict)] == [0, 0, 1]


@pytest.mark.parametrize("name", ["stray.txt", ".hidden", "0000000000.json"])
def test_the_file_in_the_way_is_named(name: str) -> None:
    Path("folder").mkdir()
    Path("folder", name).write_text("")
    with pytest.raises(FileError) as caught:
        STORE.writer("folder", dict)
    assert str(caught.value) == (
        f"The folder folder is not empty: it contains {name}. Empty it, or choose a different folder."
    )


def test_only_one_of_two_programs_writes_to_a_folder() -> None:
    first = STORE.writer("folder", dict)
    second = STORE.writer("folder", dict)
    with first as writer:
        with pytest.raises(FileError, match="is not empty: it contains 0000000000"), second:
            pytest.fail("Both write to the folder.")
        writer.add(feeds(1)[0])
    assert [feed["x"][0] for feed in STORE.iterate("folder", dict)] == [0]


def test_a_folder_that_an_ended_program_claimed_is_free() -> None:
    Path("folder").mkdir()
    Path("folder", "0000000000.json").write_text("\n")
    with STORE.writer("folder", dict) as writer:
        writer.add(feeds(1)[0])
    assert [feed["x"][0] for feed in STORE.iterate("folder", dict)] == [0]


def test_a_file_in_place_of_a_folder() -> None:
    Path("plain").write_text("text")
    with pytest.raises(
        FileError, match=r"without an extension must be a folder\. Add an extension"
    ):
        STORE.writer("plain", dict)
    assert Path("plain").read_text() == "text"


def test_an_empty_file_without_an_extension_is_written_as_json() -> None:
    Path("made").touch()
    feed = {"x": np.zeros(2)}
    with STORE.writer("made", dict) as writer:
        writer.add(feed)
    [found] = STORE.load("made", list)
    np.testing.assert_array_equal(found["x"], feed["x"])


def test_a_file_in_place_of_the_parent() -> None:
    Path("plain").write_text("text")
    for dest in ("plain/inputs.json", "plain/inputs"):
        with pytest.raises(FileError, match="plain"):
            STORE.writer(dest, dict)


def test_an_empty_folder_is_reported_at_the_call() -> None:
    Path("folder").mkdir()
    Path("folder/readme.txt").write_text("hello")
    with pytest.raises(FileError) as caught:
        STORE.iterate("folder", RunResults)
    assert str(caught.value) == (
        "The folder folder contains no inference results: it has no *.json or *.safetensors"
        " file."
    )


# Complaints about content.


@pytest.mark.parametrize(
    ("content", "kind", "complaint"),
    [
        (
            feeds(),
            RunResults,
            "it contains input data, not inference results. "
            "Load it as input data, or use a file of saved outputs.",
        ),
        (
            results(),
            dict,
            "it contains inference results, not input data. "
            "Load it as inference results, or use a file of saved inputs.",
        ),
        (
            AccuracyResults(),
            RunResults,
            "it contains accuracy results, not inference results. Use a file of saved outputs.",
        ),
        (AccuracyResults(), dict, "it contains accuracy results, not input data."),
        (TacticReplay(), RunResults, "it contains a tactic replay, not inference results."),
        (IterationResult(), RunResults, "it contains the outputs of a single iteration, not"),
        (np.zeros(3), dict, "it contains an array, not input data."),
        ([1, 2], dict, "it contains a list, not input data."),
        ([], RunResults, "it contains an empty list, not inference results."),
        ({}, RunResults, "it contains an empty dictionary, not inference results."),
        ({"x": 3}, RunResults, "it contains a dictionary, not inference results."),
        ("text", dict, "it contains a string, not input data."),
        (3.5, dict, "it contains a number, not input data."),
        (None, RunResults, "it contains null, not inference results."),
        (True, RunResults, "it contains a boolean, not inference results."),
        ([], dict, "it contains no iterations."),
        (RunResults(), RunResults, "it contains no iterations."),
        (results(0), RunResults, "it contains no iterations."),
    ],
)
def test_something_else_is_reported_at_the_call(content: Any, kind: type, complaint: str) -> None:
    json_io.save(content, "file.json")
    with pytest.raises(FileError) as caught:
        STORE.iterate("file.json", kind)
    assert str(caught.value).startswith(f"Could not load file.json: {complaint}")
    assert str(caught.value.path) == "file.json"


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (RunResults, "it contains input data, not inference results. Load it as input data"),
        (AccuracyResults, "it contains input data, not accuracy results."),
        (TacticReplay, "it contains input data, not a tactic replay."),
        (np.ndarray, "it contains input data, not an object of type 'ndarray'."),
    ],
)
def test_something_else_is_reported_when_it_is_loaded(kind: type, complaint: str) -> None:
    STORE.save(feeds(), "file.json")
    with pytest.raises(FileError) as caught:
        STORE.load("file.json", kind)
    assert str(caught.value).startswith(f"Could not load file.json: {complaint}")


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_file_is_reported_at_the_call(content: str) -> None:
    Path("file.json").write_text(content)
    for kind in (dict, RunResults):
        with pytest.raises(FileError, match=r"file\.json.* is empty"):
            STORE.iterate("file.json", kind)


def test_the_kind_of_file_that_is_missing_is_reported() -> None:
    STORE.save(results(), "outputs.json")
    with pytest.raises(FileError) as caught:
        STORE.iterate("output.json", RunResults)
    assert str(caught.value) == (
        "File of inference results output.json does not exist: No such file or directory."
        " Did you mean outputs.json?"
    )


@pytest.mark.parametrize("dest", ["results.json", "results/0000000000.json"])
@pytest.mark.parametrize("part", [0.01, 0.2, 0.5, 0.99])
def test_a_truncated_file_is_reported_at_the_call(dest: str, part: float) -> None:
    path = Path(dest)
    STORE.save(results(size=1000), path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    with pytest.raises(FileError, match=f"Could not load {dest}: it is truncated"):
        STORE.iterate("results.json" if "/" not in dest else "results", RunResults)


def test_a_later_file_of_a_folder_is_read_when_it_is_its_turn() -> None:
    write_all("inputs", feeds(3), dict)
    Path("inputs/0000000001.json").write_text("{")
    items = STORE.iterate("inputs", dict)
    assert next(items)["x"][0] == 0
    with pytest.raises(FileError, match=r"inputs/0000000001\.json: it is truncated"):
        next(items)


def test_a_damaged_array_is_reported_with_its_file() -> None:
    STORE.save(results(size=1000), "results.json")
    text = Path("results.json").read_text()
    Path("results.json").write_text(text.replace("AAAA", "A*AA", 1))
    items = STORE.iterate("results.json", RunResults)
    with pytest.raises(FileError, match=r"Could not load results\.json: base64.*'outputs'.*'y'"):
        next(items)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([1, 2], "input 'x' is of type 'list', not an array"),
        (3.0, "input 'x' is of type 'float', not an array"),
        ({"array": "k05V"}, "input 'x' is of type 'dict', not an array"),
    ],
)
def test_inputs_that_are_no_arrays_are_reported(value: Any, complaint: str) -> None:
    Path("inputs.json").write_text(json.dumps([{"x": value}]))
    with pytest.raises(FileError, match=complaint):
        next(STORE.iterate("inputs.json", dict))


@pytest.mark.parametrize("value", [[1, 2], 140_000_000, "text"])
def test_inputs_that_are_no_arrays_are_not_written(value: Any) -> None:
    with pytest.raises(FileError, match=r"input 'x' is of type '.*', not an array"):
        write_all("inputs.json", [{"x": value}], dict)
    assert not Path("inputs.json").exists()


@pytest.mark.parametrize("value", [[{0: 0.5, 1: 0.5}], {"a": 1.0}])
def test_maps_of_a_classifier_are_refused_where_only_arrays_fit(value: Any) -> None:
    results = RunResults([("runner", [IterationResult({"z": value})])])
    with pytest.raises(FileError, match=r"'z' is a sequence or a map, .* Save as \.json\."):
        write_all("results.safetensors", [results], RunResults)


def test_inputs_of_other_mappings_and_scalars_are_written_as_arrays() -> None:
    write_all("inputs.json", [IterationResult({"x": np.float32(3)})], dict)
    (feed,) = STORE.iterate("inputs.json", dict)
    assert feed["x"].dtype == np.float32
    assert feed["x"].shape == ()


def test_an_unknown_type_is_reported() -> None:
    Path("file.json").write_text('[{"x": {"y": 1, "polygraphy_class": "Novelty"}}]')
    with pytest.raises(FileError) as caught:
        STORE.load("file.json", list)
    assert str(caught.value) == (
        "Could not load file.json: it contains an object of unknown type 'Novelty' "
        "(at [0]['x']). It is from a different version, or from code that must be imported first."
    )


# Resources.


ITERATION_BYTES = 2 * 800_000


@pytest.fixture
def peak_bytes() -> Iterator[Callable[[], int]]:
    """Return a function that tells how much memory was in use at most since the test began; what is
    imported when something is first saved and loaded is not part of it.
    """
    write_all("imports.json", steps(1), RunResults)
    assert list(STORE.iterate("imports.json", RunResults))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    yield lambda: tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()


def steps(count: int) -> Iterator[RunResults]:
    return (results(1, size=100_000) for _ in range(count))


@pytest.mark.parametrize("dest", ["results.json", "results"])
def test_one_iteration_is_in_memory_when_writing(dest: str, peak_bytes: Callable[[], int]) -> None:
    write_all(dest, steps(20), RunResults)
    assert peak_bytes() < 4 * ITERATION_BYTES  # What waits in memory for the join is bounded, too.


@pytest.mark.parametrize("dest", ["results.json", "results"])
def test_one_iteration_is_in_memory_when_reading(dest: str, peak_bytes: Callable[[], int]) -> None:
    write_all(dest, steps(20), RunResults)
    tracemalloc.reset_peak()
    assert sum(1 for _ in STORE.iterate(dest, RunResults)) == 20
    assert peak_bytes() < 4 * ITERATION_BYTES


def test_saving_needs_no_copy(peak_bytes: Callable[[], int]) -> None:
    array = np.zeros(4_000_000)
    for value in (array, array.reshape(4, -1).T, array[::2], array.view(">f8")):
        tracemalloc.reset_peak()
        json_io.save(value, "array.json")
        assert peak_bytes() - array.nbytes < 4_000_000


def test_loading_needs_the_array_only(peak_bytes: Callable[[], int]) -> None:
    json_io.save(np.zeros(4_000_000), "array.json")
    tracemalloc.reset_peak()
    assert json_io.load("array.json", np.ndarray).nbytes == 32_000_000
    assert peak_bytes() < 38_000_000


def files_open_in(folder: Path) -> list[str]:
    links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    targets = [str(link.readlink()) for link in links if link.is_symlink()]
    return [target for target in targets if target.startswith(str(folder))]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be listed here")
def test_files_are_closed(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    STORE.save(results(size=1000), "results.json")
    write_all("folder", results(5, size=1000).split(), RunResults)
    loaded = STORE.load("results.json", RunResults)
    with pytest.raises(FileError):
        STORE.load("results.json", dict)
    gc.collect()  # Of the exception, with the frames that it came through.
    used = list(STORE.iterate("folder", RunResults))
    assert not files_open_in(tmp_path)
    unused = STORE.iterate("results.json", RunResults)
    half_used = STORE.iterate("folder", RunResults)
    next(half_used)
    assert files_open_in(tmp_path) == [str(tmp_path / "results.json")]
    del unused, half_used
    assert not files_open_in(tmp_path)
    assert len(loaded) == 2
    assert len(used) == 5
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]
