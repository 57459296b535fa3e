"""What NVIDIA's Polygraphy wrote is read here and written back the same; what we write is read there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy.adapters.files.codecs import FormattedArray
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare import (
    CosineSimilarityCompareFunc,
    IndicesCompareFunc,
    L2CompareFunc,
    OutputCompareResult,
    PsnrCompareFunc,
    SnrCompareFunc,
    UncomparedResult,
)
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
from tests.support import models, replays

FOLDER = Path(__file__).parents[2] / "data" / "nvidia"
FILES = sorted(FOLDER.rglob("*.json"))

NVIDIA_PYTHON = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON", "")
needs_nvidia = pytest.mark.skipif(
    not NVIDIA_PYTHON,
    reason="POLYGRAPHY_NVIDIA_PYTHON does not name an interpreter that has NVIDIA's Polygraphy",
)


def test_there_are_samples() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_file_is_written_back_byte_by_byte(path: Path, tmp_path: Path) -> None:
    json_io.save(json_io.load(path, object), tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["outputs.json", "outputs_dir", "outputs_several.json"])
def test_results_are_iterated(name: str) -> None:
    runs = list(FileResultStore().iterate(FOLDER / name, RunResults))
    assert len(runs) == (2 if name == "outputs_dir" else 1)
    assert all(run.keys()[0].startswith("onnxrt-runner-N0") for run in runs)


@pytest.mark.parametrize(
    ("name", "count"), [("inputs.json", 1), ("inputs_dir", 2), ("dtypes.json", 2)]
)
def test_inputs_are_iterated(name: str, count: int) -> None:
    assert len(list(FileResultStore().iterate(FOLDER / name, dict))) == count


def test_data_types_are_those_that_were_saved() -> None:
    first, second = json_io.load(FOLDER / "dtypes.json", list)
    assert {name: str(array.dtype) for name, array in first.items()} == {
        "float16": "float16",
        "int8": "int8",
        "int64": "int64",
        "uint64": "uint64",
        "bool": "bool",
        "uint8": "uint8",
        "float64": "float64",
        "scalar": "float32",
        "empty": "float32",
    }
    assert first["int64"][0] == 2**62 + 1
    assert first["uint64"][0] == 2**64 - 1
    assert first["scalar"].shape == ()
    assert first["empty"].shape == (0, 4)
    assert second["fortran"].flags.f_contiguous
    np.testing.assert_array_equal(second["fortran"], np.arange(6).reshape(2, 3))


def test_formatted_arrays_are_read() -> None:
    formatted = json_io.load(FOLDER / "formatted.json", FormattedArray)
    np.testing.assert_array_equal(formatted.array, np.arange(4))
    assert formatted.shape == (1, 3, 1)


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("accuracy_pass.json", [True]),
        ("accuracy_fail.json", [False, False, False, True, True, True]),
        ("accuracy_quantile.json", [False]),
    ],
)
def test_verdicts_are_the_same(name: str, passed: list[bool]) -> None:
    verdicts = json_io.load(FOLDER / name, AccuracyResults)
    assert [bool(verdict) for verdict in verdicts] == passed
    assert bool(verdicts) is all(passed)


def test_the_functions_of_single_metrics_are_known() -> None:
    verdicts = json_io.load(FOLDER / "accuracy_fail.json", AccuracyResults)
    assert [verdict.label for verdict in verdicts[2:]] == ["l2", "cosine_similarity", "psnr", "snr"]


def test_replays_are_read(tmp_path: Path) -> None:
    replays.write(tmp_path / "replay.json", {"conv": replays.algorithm(7)})
    info = TensorInfo("DataType.FLOAT", (4, 4, 2, 1), -1, 1)
    expected = TacticReplay().add("conv", Algorithm(0x8000000D, 7, [info], [info]))
    assert json_io.load(tmp_path / "replay.json", TacticReplay) == expected


# The other way round.


def run_nvidia(program: str, folder: Path) -> Any:
    """Run a program in NVIDIA's Polygraphy and return the JSON that it leaves in answer.json."""
    (folder / "program.py").write_text(program)
    subprocess.run([NVIDIA_PYTHON, "program.py"], cwd=folder, check=True, capture_output=True)
    return json.loads((folder / "answer.json").read_text())


PROGRAM = """
import json
import numpy as np
from polygraphy.comparator import AccuracyResults, RunResults
from polygraphy.json import load_json

def described(array):
    array = np.asarray(array)
    return [str(array.dtype), list(array.shape), array.tobytes().hex()]

inputs = load_json("inputs.json")
results = RunResults.load("outputs.json")
verdicts = AccuracyResults.load("verdicts.json")
answer = {
    "inputs": [{name: described(array) for name, array in feed.items()} for feed in inputs],
    "outputs": [
        [name, [[it.runtime, it.runner_name, described(it["y"])] for it in iterations]]
        for name, iterations in results
    ],
    "streamed": [
        [[name, described(iterations[0]["y"])] for name, iterations in run]
        for path in ("outputs.json", "outputs")
        for run in RunResults.load_streaming(path)
    ],
    "verdicts": [
        [list(pair), [[name, bool(answer)] for name, answer in iterations[0].items()]]
        for verdict in verdicts
        for pair, iterations in verdict.items()
    ],
}
with open("answer.json", "w") as file:
    json.dump(answer, file)
"""


def described(array: Any) -> Any:
    return [str(array.dtype), list(array.shape), array.tobytes().hex()]


FEEDS: list[dict[str, Any]] = [
    {"x": np.arange(6, dtype=np.float16).reshape(2, 3), "é": np.array(2**63, np.uint64)},
    {"x": np.asfortranarray(np.ones((2, 3), ">f4")), "é": np.array(["a", "bc"])},
]


@needs_nvidia
def test_what_we_write_is_read_there(tmp_path: Path) -> None:
    store = FileResultStore()
    results = RunResults(
        (name, [IterationResult({"y": feed["x"]}, 0.5, name) for feed in FEEDS]) for name in "ab"
    )
    store.save(FEEDS, tmp_path / "inputs.json")
    for dest in ("outputs.json", "outputs"):
        with store.writer(tmp_path / dest, RunResults) as writer:
            for step in results.split():
                writer.add(step)
    output = OutputCompareResult(*[0.5] * 6, thresholds=Tolerance(atol=1), passed=True)
    strict = Tolerance(check_error_stat="max", atol=0.1, rtol=0)
    answers = {
        "y": output,
        "z": OutputCompareResult(*[0.5] * 6, thresholds=strict),
        "w": UncomparedResult("The shapes differ."),
    }
    store.save(
        AccuracyResults([AccuracyResult([(("a", "b"), [answers])])]), tmp_path / "verdicts.json"
    )

    answer = run_nvidia(PROGRAM, tmp_path)
    wanted = [described(feed["x"]) for feed in FEEDS]
    assert answer["inputs"] == [
        {name: described(array) for name, array in feed.items()} for feed in FEEDS
    ]
    assert answer["outputs"] == [[name, [[0.5, name, each] for each in wanted]] for name in "ab"]
    assert answer["streamed"] == [[["a", each], ["b", each]] for each in wanted] * 2
    assert answer["verdicts"] == [[["a", "b"], [["y", True], ["z", False], ["w", False]]]]


@needs_nvidia
def test_verdicts_about_metrics_are_read_there(tmp_path: Path) -> None:
    functions = [L2CompareFunc(1.0), CosineSimilarityCompareFunc(), PsnrCompareFunc()]
    functions += [SnrCompareFunc({"y": 99}), IndicesCompareFunc()]
    one = IterationResult({"y": np.array([1.0, 2.0])})
    other = IterationResult({"y": np.array([1.0, 2.5])})
    verdicts = AccuracyResults()
    for function in functions:
        verdicts.append(AccuracyResult([(("a", "b"), [function(one, other)])]))
    verdicts[0].aggregation = "average"
    json_io.save(verdicts, tmp_path / "ours.json")
    program = (
        "import json\nfrom polygraphy.comparator import AccuracyResults\n"
        'results = AccuracyResults.load("ours.json")\nresults.save("theirs.json")\n'
        'json.dump([bool(each) for each in results], open("answer.json", "w"))\n'
    )
    assert run_nvidia(program, tmp_path) == [bool(verdict) for verdict in verdicts]
    ours = json.loads((tmp_path / "ours.json").read_text())
    for verdict in ours["lst"]:
        del verdict["summary"]  # Which is for people and scripts: nobody loads it.
    assert ours == json.loads((tmp_path / "theirs.json").read_text())


@needs_nvidia
def test_metrics_are_those_that_are_measured_there(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(2, 50)).astype(np.float32)
    runs = RunResults(
        (name, [IterationResult({"y": array}, 0.1, name)]) for name, array in zip("ab", values)
    )
    json_io.save(runs, tmp_path / "runs.json")
    program = (
        "import json\nfrom polygraphy.comparator import *\n"
        'runs = RunResults.load("runs.json")\n'
        "functions = [L2CompareFunc(), CosineSimilarityCompareFunc(), PsnrCompareFunc(), SnrCompareFunc()]\n"
        "(one,), (other,) = [iterations for _, iterations in runs]\n"
        'found = [list(f(one, other)["y"].metric_values().items()) for f in functions]\n'
        'json.dump(found, open("answer.json", "w"))\n'
    )
    functions = (L2CompareFunc, CosineSimilarityCompareFunc, PsnrCompareFunc, SnrCompareFunc)
    (_, (one,)), (_, (other,)) = runs
    answers = [kind()(one, other)["y"].metric_values() for kind in functions]
    theirs = [dict(metrics) for metrics in run_nvidia(program, tmp_path)]
    assert [pytest.approx(metrics, rel=1e-5) for metrics in theirs] == answers


@needs_nvidia
def test_narrow_types_are_read_there_as_unsigned_integers(tmp_path: Path) -> None:
    array = np.array([1, -2.5], ml_dtypes.bfloat16)
    json_io.save({"x": array}, tmp_path / "narrow.json")
    program = (
        "import json\nfrom polygraphy.json import load_json\n"
        'x = load_json("narrow.json")["x"]\n'
        'json.dump([str(x.dtype), x.tolist()], open("answer.json", "w"))\n'
    )
    assert run_nvidia(program, tmp_path) == ["uint16", array.view(np.uint16).tolist()]


@needs_nvidia
def test_inspect_data_shows_our_files(tmp_path: Path) -> None:
    json_io.save(FEEDS, tmp_path / "inputs.json")
    json_io.save(RunResults([("mine", [IterationResult(FEEDS[0])])]), tmp_path / "outputs.json")
    for name, expected in (("inputs.json", "x [dtype="), ("outputs.json", "mine")):
        shown = subprocess.run(
            [Path(NVIDIA_PYTHON).with_name("polygraphy"), "inspect", "data", name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert expected in shown


@needs_nvidia
def test_what_is_written_there_has_the_same_bytes(tmp_path: Path) -> None:
    program = (
        "import json\nimport numpy as np\nfrom polygraphy.json import save_json\n"
        'arrays = {"a": np.arange(5.0), "b": np.asfortranarray(np.ones((3, 2), "i2"))}\n'
        'arrays["c"] = [1, 1e-7, float("nan"), -float("inf"), None, True, "\\u00e9\\\\", [], {}]\n'
        'save_json([arrays], "theirs.json")\njson.dump(0, open("answer.json", "w"))\n'
    )
    run_nvidia(program, tmp_path)
    json_io.save(json_io.load(tmp_path / "theirs.json", list), tmp_path / "ours.json")
    assert (tmp_path / "ours.json").read_bytes() == (tmp_path / "theirs.json").read_bytes()


@needs_nvidia
def test_narrow_types_that_are_written_there_are_distinguished_where_that_can_be(
    tmp_path: Path,
) -> None:
    program = (
        "import json\nimport ml_dtypes\nimport numpy as np\n"
        "from polygraphy.json import save_json\n"
        'save_json({"x": np.array([1, -2.5], ml_dtypes.bfloat16)}, "bfloat16.json")\n'
        'save_json({"x": np.array([1], ml_dtypes.float8_e4m3fn)}, "float8.json")\n'
        'save_json({"x": np.array(["a", "bc"]), "e": np.array([], "<U1")}, "text.json")\n'
        'json.dump(0, open("answer.json", "w"))\n'
    )
    run_nvidia(program, tmp_path)
    wide = json_io.load(tmp_path / "bfloat16.json", dict)["x"]
    assert wide.dtype == ml_dtypes.bfloat16
    assert wide.tolist() == [1, -2.5]
    assert json_io.load(tmp_path / "float8.json", dict)["x"].dtype == np.dtype("V1")
    text = json_io.load(tmp_path / "text.json", dict)
    assert text["x"].tolist() == ["a", "bc"]
    assert text["e"].shape == (0,)


def nvidia(words: str, folder: Path) -> int:
    command = [Path(NVIDIA_PYTHON).with_name("polygraphy"), *words.split()]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode


@needs_nvidia
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_a_run_of_one_tool_goes_on_in_the_other(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.save(models.identity(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)

    def ours(words: str, folder: Path) -> int:
        command = [sys.executable, "-m", "polygraphy", *words.split()]
        return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode

    first, second = (ours, nvidia) if writer == "ours" else (nvidia, ours)
    run = "run m.onnx --onnxrt --iterations 2"
    assert (
        first(f"{run} --save-inputs in --save-outputs out --save-input-blob blobs", tmp_path) == 0
    )
    assert first(f"{run} --save-inputs in.json --save-outputs out.json", tmp_path) == 0
    twice = "run m.onnx --onnxrt --onnxrt --compare simple l2 psnr --check-error-stat max"
    assert first(f"{twice} --save-accuracy-results verdicts.json", tmp_path) == 0
    for end in ("", ".json"):
        loaded = f"--load-inputs in{end} --load-outputs out{end} --atol 0 --rtol 0"
        assert second(f"run m.onnx --onnxrt {loaded}", tmp_path) == 0
        other = f"--seed 7 --iterations 2 --load-outputs out{end}"
        assert second(f"run m.onnx --onnxrt {other}", tmp_path) == 1
        assert second(f"inspect data out{end} --all", tmp_path) == 0
    thresholds = "--check-error-stat max --rtol 1e-5 --atol 1e-5 --l2-threshold 1e-5"
    assert second(f"check accuracy verdicts.json {thresholds}", tmp_path) == 0
    assert second("data concat in.json in.json -o both.json", tmp_path) == 0
    assert second("data merge in.json out.json -o merged.json", tmp_path) == 0
    if writer == "theirs":  # Their tool reads no bare bytes.
        loaded = "--load-inputs blobs --load-outputs out --atol 0 --rtol 0"
        assert second(f"run m.onnx --onnxrt {loaded}", tmp_path) == 0
    else:
        assert sorted(map(str, Path("blobs").rglob("*.bin"))) == [
            "blobs/0000000000/x.bin",
            "blobs/0000000001/x.bin",
        ]
