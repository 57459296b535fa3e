"""The commands that read saved data."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.comparator import AccuracyResults, IterationResult, RunResults
from polygraphy.json import load_json, save_json

Run = Callable[..., Any]

NVIDIA = Path(__file__).parents[1] / "data" / "nvidia"
FIRST, SECOND = "trt-runner-N0-04/12/24-13:52:48", "onnxrt-runner-N0-04/12/24-13:52:48"
X = np.array([[[[0.41702199, 0.72032452], [1.14374816e-04, 0.30233258]]]], np.float32)


@pytest.fixture(autouse=True)
def _in_fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def results(*arrays: Any, names: tuple[str, ...] = (FIRST, SECOND)) -> RunResults:
    return RunResults(
        (name, [IterationResult({"y": array}, 0.5, name) for array in arrays]) for name in names
    )


def critical(done: Any) -> str:
    [line] = [line for line in done.err.splitlines() if line.startswith("[!] ")]
    return str(line)


# Tests of `inspect data` follow.


@pytest.mark.cold
def test_results_read_as_they_always_did(polygraphy: Run) -> None:
    results(X).save("inference_results.json")
    done = polygraphy("polygraphy inspect data inference_results.json")
    line = (
        r"    y \[dtype=float32, shape=\(1, 1, 2, 2\)\] \| Stats: mean=0.35995, std-dev=0.25784,"
        r" var=0.066482, median=0.35968, min=0.00011437 at \(0, 0, 1, 0\), max=0.72032 at"
        r" \(0, 0, 0, 1\), avg-magnitude=0.35995"
    )
    expected = [
        r"\[I\] ==== Run Results \(2 runners\) ====",
        r"    ",
        rf"    ---- {FIRST}    \(1 iterations\) ----",
        r"    ",
        line,
        rf"    ---- {SECOND} \(1 iterations\) ----",
        r"    ",
        line,
    ]
    assert done.code == 0
    assert len(done.lines) == len(expected)
    for found, pattern in zip(done.lines, expected):
        assert re.fullmatch(pattern, found)


def test_inputs_have_their_own_heading(polygraphy: Run) -> None:
    save_json([{"x": X}, {"x": X + 1}, {"x": X}], "inputs.json")
    done = polygraphy("polygraphy inspect data inputs.json")
    assert done.lines[0] == "[I] ==== Data (3 iterations) ===="
    assert [line.split(" ")[4] for line in done.lines[2:]] == ["x"]
    every = polygraphy("polygraphy inspect data inputs.json -a")
    shown = [line.strip() for line in every.lines if "Iteration:" in line]
    assert shown == ["-- Iteration: 0", "-- Iteration: 1", "-- Iteration: 2"]
    assert "max=1.7203" in every.out


def test_nan_infinities_and_zeros_are_counted_and_located(polygraphy: Run) -> None:
    data = np.ones((2, 3), np.float32)
    data[0, 1] = np.nan
    data[1, 0] = data[1, 2] = np.inf
    data[1, 1] = -np.inf
    save_json([{"x": data, "fine": np.array([0, 2])}], "inputs.json")
    found = "x | NaN: 1 (first at (0, 1)), +Inf: 2 (first at (1, 0)), -Inf: 1 (first at (1, 1))"
    done = polygraphy("polygraphy inspect data inputs.json --show-values --statistics")
    assert f"{found}, zeros: 0 of 6 elements" in done.out
    assert "fine | NaN: 0, +Inf: 0, -Inf: 0, zeros: 1 (first at (0,)) of 2 elements" in done.out
    assert "fine | Percentiles: p1=0.02, p5=0.1, p25=0.5, p50=1," in done.out
    assert "[[  1.  nan   1.]" in done.out
    silent = polygraphy("polygraphy inspect data inputs.json")  # Bad news needs no flag.
    assert silent.lines[0] == "NaN or infinity in 1 of 2 tensors; 1 iteration."
    assert "NaN 1 at [0,1], +Inf 2, first at [1,0], -Inf 1 at [1,1]" in silent.out
    old = polygraphy("polygraphy inspect data inputs.json --log-format legacy")
    assert old.lines[0] == "[I] ==== Data (1 iterations) ====" and f"{found} of 6" in old.out
    assert not {"zeros", "Percentiles", "[["} & set(
        re.findall(r"zeros|Percentiles|\[\[", silent.out)
    )


def test_layout_of_values(polygraphy: Run) -> None:
    save_json([{"x": np.arange(2000)}], "inputs.json")
    command = "polygraphy inspect data inputs.json -s"
    assert "[   0    1    2 ... 1997 1998 1999]" in polygraphy(command).out
    assert "[   0 ... 1999]" in polygraphy(f"{command} -n 1").out
    assert "1234" in polygraphy(f"{command} -n -1").out
    assert max(map(len, polygraphy(f"{command} -n -1 --line-width 40").lines[3:])) <= 48
    unbroken = polygraphy(f"{command} -n -1 --line-width -1").lines
    assert len(unbroken) == 4


def test_histogram(polygraphy: Run) -> None:
    save_json([{"x": np.arange(10)}], "inputs.json")
    assert "Histogram" not in polygraphy("polygraphy inspect data inputs.json").out
    drawn = polygraphy("polygraphy inspect data inputs.json --histogram").out
    assert "---- Histogram ----" in drawn and "#" * 40 in drawn


def test_any_kind_of_file_and_several_at_once(polygraphy: Run) -> None:
    results(X, X).save("results.json")
    done = polygraphy(
        f"polygraphy inspect data results.json {NVIDIA}/inputs_dir {NVIDIA}/outputs_dir"
        f" {NVIDIA}/accuracy_fail.json"
    )
    assert done.code == 0
    headings = [line for line in done.lines if "====" in line]
    assert headings == [
        "[I] ==== Run Results (2 runners) ====",
        "[I] ==== Data (2 iterations) ====",
        "[I] ==== Run Results (1 runners) ====",
        "[I] ==== Accuracy Results (6 comparisons) ====",
    ]
    assert done.lines[0] == "[I] results.json"
    assert "y | FAILED | max_absdiff=0.00010967" in done.out
    assert "---- cosine_similarity ----" in done.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "File of saved data broken.json does not exist."),
        ("", "is empty"),
        ('{"lst": [[', "is truncated"),
        ('{"replay": {}, "polygraphy_class": "TacticReplayData"}', "it contains a tactic replay"),
        ("[1, 2]", "it contains a list"),
    ],
)
def test_files_that_cannot_be_shown(polygraphy: Run, content: str | None, message: str) -> None:
    if content is not None:
        Path("broken.json").write_text(content)
    done = polygraphy("polygraphy inspect data broken.json")
    assert done.code == (2 if content is None else 3)
    assert message in critical(done) and "broken.json" in critical(done)


# Tests of `inspect diff` follow.


@pytest.mark.parametrize(("rtol", "code"), [(0.5, 1), (1.0, 0)])
def test_the_first_file_is_the_reference(polygraphy: Run, rtol: float, code: int) -> None:
    # 2 differs from 1 by 100% of 1, and by 50% of 2.
    results(np.array([1.0]), names=(FIRST,)).save("expected.json")
    results(np.array([2.0]), names=(FIRST,)).save("actual.json")
    done = polygraphy(f"polygraphy inspect diff expected.json actual.json --rtol={rtol} --atol 0")
    assert done.code == code
    assert done.lines[-1].startswith(
        "FAILED  1 of 1 output" if code else "PASSED  1 output matched"
    )


def test_inputs_are_compared_too(polygraphy: Run) -> None:
    save_json([{"x": X}, {"x": X}], "a.json")
    save_json([{"x": X}, {"x": X + 0.01}], "b.json")
    assert polygraphy("polygraphy inspect diff a.json a.json").code == 0
    done = polygraphy("polygraphy inspect diff a.json b.json")
    assert done.code == 1
    assert any(line.startswith("b.json vs. a.json ") for line in done.lines)
    assert any(line.startswith("x x ") and " 1/2 " in line for line in done.lines)
    assert polygraphy("polygraphy inspect diff a.json b.json --atol 0.1").code == 0


def test_runners_are_paired_by_kind(polygraphy: Run) -> None:
    results(X, names=("trt-runner-N0-04/12/24-13:52:48", SECOND)).save("expected.json")
    later = ("onnxrt-runner-N3-01/01/30-00:00:00", "trt-runner-N1-01/01/30-00:00:00")
    results(X, names=later).save("actual.json")
    command = "polygraphy inspect diff expected.json actual.json"
    done = polygraphy(f"{command} --log-format legacy")
    assert done.code == 0
    assert f"Accuracy Comparison | {later[0]} vs. {SECOND}" in done.out
    assert f"Accuracy Comparison | {later[1]} vs. {FIRST}" in done.out
    shown = polygraphy(command).out
    assert "actual.json: onnxrt vs. expected.json: onnxrt " in shown
    assert "actual.json: trt vs. expected.json: trt " in shown


def test_a_single_reference_is_for_all(polygraphy: Run) -> None:
    results(X, names=(FIRST,)).save("expected.json")
    both = results(X)
    both[1][1][0]["y"] = X + 1
    both.save("actual.json")
    command = "polygraphy inspect diff expected.json actual.json"
    done = polygraphy(f"{command} --log-format legacy")
    assert done.code == 1
    assert f"{FIRST} (actual.json) vs. {FIRST} (expected.json) | Passed: 1/1" in done.out
    assert f"{SECOND} vs. {FIRST} (expected.json) | Passed: 0/1" in done.out


def test_fail_fast_stops_at_the_first_iteration(polygraphy: Run) -> None:
    save_json([{"x": X}, {"x": X}], "a.json")
    save_json([{"x": X + 1}, {"x": X + 1}], "b.json")
    command = "polygraphy inspect diff a.json b.json"
    assert " 0/2 " in polygraphy(command).out
    assert " 0/1 " in polygraphy(f"{command} --fail-fast").out


def test_what_cannot_be_compared(polygraphy: Run) -> None:
    save_json([{"x": X}], "inputs.json")
    results(X).save("two.json")
    results(X, names=("a", "b", "c")).save("three.json")
    shutil.copy(NVIDIA / "accuracy_fail.json", "verdicts.json")
    for files, message in (
        ("inputs.json two.json", "inputs.json holds input data, but two.json holds inference"),
        ("two.json three.json", "two.json contains results of 2 runners, but three.json of 3"),
        ("verdicts.json two.json", "verdicts.json contains accuracy results, which cannot be"),
    ):
        done = polygraphy(f"polygraphy inspect diff {files}")
        assert done.code == 2
        assert message in critical(done)


# Tests of `check accuracy` follow.


def test_without_options_the_saved_verdicts_count(polygraphy: Run) -> None:
    assert polygraphy(f"polygraphy check accuracy {NVIDIA}/accuracy_pass.json").code == 0
    done = polygraphy(f"polygraphy check accuracy {NVIDIA}/accuracy_fail.json")
    assert done.code == 1
    assert "x y " in done.out
    assert any(line.endswith(" 0/1") for line in done.lines)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 1),  # the quantile, 1.09e-4 absolute and 2.82e-4 relative, with 1e-5
        ("--rtol 2.9e-4", 0),
        ("--rtol 2.8e-4", 1),
        ("--atol 1.1e-4", 0),
        ("--atol y:1.1e-4", 0),
        ("--atol 1.1e-4 y:1e-4", 1),
        ("--rtol 1.5e-4", 1),
        ("--rtol 1.5e-4 --check-error-stat mean", 0),  # 1.42e-4
        ("--rtol 1.5e-4 --check-error-stat mean max", 1),
        ("--rtol 1.2e-4 --check-error-stat y:median", 0),  # 1.12e-4
    ],
)
def test_saved_metrics_are_judged_anew(polygraphy: Run, options: str, code: int) -> None:
    done = polygraphy(f"polygraphy check accuracy {NVIDIA}/accuracy_quantile.json {options}")
    assert done.code == code


def test_what_cannot_be_judged_anew(polygraphy: Run) -> None:
    path = f"{NVIDIA}/accuracy_fail.json"
    done = polygraphy(f"polygraphy check accuracy {path} --rtol 1")
    assert done.code == 2
    assert "was checked element by element. It cannot be checked again" in critical(done)
    other = polygraphy(f"polygraphy check accuracy {path} --rtol 1 --check-error-stat max")
    assert other.code == 1  # The other functions' verdicts stay, and some said no.
    assert "The results of the comparison function l2 keep their saved verdicts" in other.out
    unknown = polygraphy(f"polygraphy check accuracy {path} --rtol z:1 --check-error-stat max")
    assert unknown.code == 2
    assert "Output 'z' does not exist. Available: 'y'." in critical(unknown)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--psnr-threshold 80.1", 1),  # 80.07 dB
        ("--psnr-threshold 80", 0),
        ("--psnr-threshold y:80.1", 1),
        ("--snr-threshold 76", 1),  # 75.8 dB
        ("--snr-threshold 75", 0),
        ("--cosine-similarity-threshold 0.5", 0),
        ("--l2-threshold 1e-4", 1),  # 1.43e-4
    ],
)
def test_saved_metrics_are_held_to_other_thresholds(
    polygraphy: Run, options: str, code: int
) -> None:
    loose = "--rtol 1 --check-error-stat max"
    path = Path("verdicts.json")
    saved = AccuracyResults.load(NVIDIA / "accuracy_fail.json")
    AccuracyResults([result for result in saved if result.label != "simple"][1:]).save(path)
    if "l2" in options:
        saved.save(path)
        options += f" {loose}"
    assert polygraphy(f"polygraphy check accuracy {path} {options}").code == code


def test_thresholds_that_nothing_is_for(polygraphy: Run) -> None:
    path = f"{NVIDIA}/accuracy_quantile.json"
    done = polygraphy(f"polygraphy check accuracy {path} --l2-threshold 1")
    assert done.code == 2
    assert "contains no metrics of the comparison function l2" in critical(done)
    indices = polygraphy(f"polygraphy check accuracy {path} --index-tolerance 1")
    assert indices.code == 2
    assert "indices are not saved with the verdicts" in indices.err


def test_nothing_is_no_pass(polygraphy: Run) -> None:
    AccuracyResults().save("empty.json")
    done = polygraphy("polygraphy check accuracy empty.json")
    assert done.code == 4
    assert "contains no verdicts" in critical(done)


# Tests of `data` follow.


def test_concat_of_inputs(polygraphy: Run) -> None:
    save_json([{"x": X}], "a.json")
    save_json([{"x": X + 1}, {"x": X + 2}], "b.json")
    assert polygraphy("polygraphy data concat a.json b.json a.json -o joined.json").code == 0
    firsts = [float(feed["x"][0, 0, 0, 0] - X[0, 0, 0, 0]) for feed in load_json("joined.json")]
    assert firsts == pytest.approx([0, 1, 2, 0], abs=1e-6)


def test_concat_of_results_of_the_same_runners(polygraphy: Run) -> None:
    results(X).save("a.json")
    later = ("trt-runner-N1-01/01/30-00:00:00", "onnxrt-runner-N1-01/01/30-00:00:00")
    results(X + 1, names=later).save("b.json")
    swapped = results(X + 2, names=(SECOND, FIRST))
    swapped[0][1][0]["y"] = X + 3  # of SECOND
    swapped.save("c.json")
    assert polygraphy("polygraphy data concat a.json b.json c.json -o joined.json").code == 0
    joined = RunResults.load("joined.json")
    assert joined.keys() == [FIRST, SECOND]
    assert [float((one["y"] - X).max()) for one in joined[FIRST]] == pytest.approx([0, 1, 2])
    assert [float((one["y"] - X).max()) for one in joined[SECOND]] == pytest.approx([0, 1, 3])


def test_what_cannot_be_joined(polygraphy: Run) -> None:
    save_json([{"x": X}], "inputs.json")
    results(X).save("results.json")
    results(X, names=("other",)).save("other.json")
    shutil.copy(NVIDIA / "accuracy_fail.json", "verdicts.json")
    Path("out.json").write_text("precious")
    for files, message in (
        (
            "inputs.json results.json",
            "inputs.json contains input data, but results.json contains inference",
        ),
        ("results.json other.json", "but other.json of other"),
        ("verdicts.json verdicts.json", "verdicts.json contains accuracy results"),
    ):
        done = polygraphy(f"polygraphy data concat {files} -o out.json")
        assert done.code == 2
        assert message in critical(done)
    assert Path("out.json").read_text() == "precious"


def test_different_tensors_are_reported_about_once(polygraphy: Run) -> None:
    save_json([{"x": X}], "a.json")
    save_json([{"z": X}, {"z": X}], "b.json")
    done = polygraphy("polygraphy data concat a.json b.json -o joined.json")
    assert done.code == 0
    assert done.out.count("b.json have different names") == 1


@pytest.mark.parametrize("command", ["merge", "to-input"])
def test_merge_keeps_every_iteration(polygraphy: Run, command: str) -> None:
    save_json([{"x": X}, {"x": X + 1}], "inputs.json")
    results(X + 2, X + 3, names=(FIRST,)).save("results.json")
    done = polygraphy(f"polygraphy data {command} inputs.json results.json -o merged.json")
    assert done.code == 0
    merged = load_json("merged.json")
    assert [sorted(feed) for feed in merged] == [["x", "y"], ["x", "y"]]
    for index, feed in enumerate(merged):
        np.testing.assert_array_equal(feed["x"], X + index)
        np.testing.assert_array_equal(feed["y"], X + 2 + index)


def test_a_tensor_that_several_files_have(polygraphy: Run) -> None:
    save_json([{"x": X}, {"x": X}], "a.json")
    save_json([{"x": X + 1}, {"x": X + 1}], "b.json")
    done = polygraphy("polygraphy data merge a.json b.json -o merged.json")
    assert done.code == 0
    assert done.out.count("'x' is also in b.json, which is used") == 1
    np.testing.assert_array_equal(load_json("merged.json")[0]["x"], X + 1)


def test_numbers_of_iterations_must_agree(polygraphy: Run) -> None:
    save_json([{"x": X}, {"x": X}], "a.json")
    save_json([{"z": X}], "b.json")
    done = polygraphy("polygraphy data merge a.json b.json -o merged.json")
    assert done.code == 2
    assert "cannot be merged: a.json has 2, b.json has 1" in critical(done)
    assert not Path("merged.json").exists()


def test_convert_to_a_folder_and_back(polygraphy: Run) -> None:
    original = results(X, X + 1)
    original.save("a.json")
    assert polygraphy("polygraphy data convert a.json folder").code == 0
    assert sorted(path.name for path in Path("folder").iterdir()) == [
        "0000000000.json",
        "0000000001.json",
    ]
    assert polygraphy("polygraphy data convert folder b.json").code == 0
    assert RunResults.load("b.json") == original
    assert polygraphy(f"polygraphy data convert {NVIDIA}/accuracy_pass.json c.json").code == 0
    assert bool(AccuracyResults.load("c.json"))


# Tests of `doctor` follow.


def test_doctor_names_versions_providers_and_variables(polygraphy: Run) -> None:
    import onnxruntime

    shown = polygraphy("polygraphy doctor")
    assert shown.code == 0
    assert shown.lines[0].startswith("Installed: ONNX Runtime")
    assert f"  onnxruntime {onnxruntime.__version__}" in shown.out
    assert not {"[I]", " | ", "PASSED"} & {*shown.out.split(), *re.findall(r" \| ", shown.out)}
    done = polygraphy(
        "polygraphy doctor --log-format legacy", env={"POLYGRAPHY_AUTOINSTALL_DEPS": "0"}
    )
    assert done.code == 0
    assert done.lines[0] == "[I] ==== Environment ===="
    assert re.search(rf"numpy +\| {re.escape(np.__version__)}", done.out)
    assert f"onnxruntime {onnxruntime.__version__}" in done.out
    assert "CPUExecutionProvider | starts" in re.sub(" +", " ", done.out)
    assert re.search(r"POLYGRAPHY_AUTOINSTALL_DEPS +\| '0'", done.out)
    assert re.search(r"POLYGRAPHY_USE_TENSORRT_RTX +\| not set", done.out)


# Tests of files in the formats of other libraries follow.


def test_native_files_take_part_everywhere(identity_dir: Path, polygraphy: Run) -> None:
    saved = polygraphy(
        "polygraphy run identity.onnx --onnxrt --save-inputs i.safetensors"
        " --save-outputs o.safetensors"
    )
    assert saved.code == 0
    assert Path("i.safetensors").is_file() and Path("o.safetensors").is_file()
    done = polygraphy(
        "polygraphy run identity.onnx --onnx --load-inputs i.safetensors"
        " --load-outputs o.safetensors --atol 0 --rtol 0"
    )
    assert done.code == 0
    assert "Passed: 1/1 iterations" in done.out
    assert "==== Run Results (1 runners) ====" in (
        polygraphy("polygraphy inspect data o.safetensors").out
    )
    assert polygraphy("polygraphy data convert o.safetensors o.json").code == 0
    assert polygraphy("polygraphy inspect diff o.json o.safetensors --atol 0 --rtol 0").code == 0


def test_text_has_no_statistics(tmp_path: Path, monkeypatch: Any, polygraphy: Run) -> None:
    monkeypatch.chdir(tmp_path)
    from polygraphy.json import save_json

    save_json([{"words": np.array(["a", "long word"])}], "text.json")
    done = polygraphy("polygraphy inspect data text.json --histogram --statistics")
    assert done.code == 0
    assert "words [dtype=str, shape=(2,)] | Text, no statistics" in done.out
    assert "nan" not in done.out.lower()
    assert "Histogram" not in done.out


def test_iterations_are_counted_per_run_not_per_name(polygraphy: Run) -> None:
    runs = RunResults([("r", [IterationResult({"y": X})] * 2), ("r", [IterationResult({"z": X})])])
    runs.save("uneven.json")
    done = polygraphy("polygraphy data merge uneven.json -o merged.json")
    assert done.code == 2
    assert "uneven.json (r) has 2, uneven.json (r) has 1" in critical(done)


def test_a_tensor_of_two_runs_of_one_file_is_noted(polygraphy: Run) -> None:
    runs = RunResults([("r", [IterationResult({"y": X})]), ("s", [IterationResult({"y": X + 1})])])
    runs.save("two.json")
    done = polygraphy("polygraphy data merge two.json -o merged.json")
    assert done.code == 0
    assert "'y' is also in two.json (s), which is used" in done.out
    np.testing.assert_array_equal(load_json("merged.json")[0]["y"], X + 1)


@pytest.mark.parametrize("function", ["l2", "psnr", "cosine_similarity", "simple"])
def test_no_pair_and_no_iteration_hides_another(polygraphy: Run, function: str) -> None:
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 99.0)):
        made = RunResults()
        made.add([{"y": np.array([1.0, value])}] + [{"y": np.ones(2)}] * 2)
        made.save(f"{name}.json")
    done = polygraphy(
        "polygraphy run -v --load-outputs a.json b.json c.json --check-average --check-error-stat max"
        f" --compare {function} --save-accuracy-results acc.json"
    )
    assert done.code == 1
    summaries = [line for line in done.lines if "Accuracy Summary" in line]
    assert [re.findall(r"Passed: (\d)/1", line) for line in summaries] == [["1"], ["0"]]
    assert polygraphy("polygraphy check accuracy acc.json").code == 1


def test_a_diagnosis_is_proposed_where_what_was_saved_can_say_which_node_it_is(
    polygraphy: Any,
) -> None:
    digits = Path(__file__).parents[2] / "examples" / "digits"
    data = f"--load-inputs {digits}/digits_inputs.json"
    run = f"polygraphy run {digits}"
    for saved, options in (("outputs.json", ""), ("all.json", "--onnx-outputs mark all")):
        line = f"{run}/digits.onnx --onnxrt {data} {options} --save-outputs {saved}"
        assert polygraphy(line).code == 0
        done = polygraphy(f"{run}/digits_changed.onnx --onnxrt {data} --load-outputs {saved}")
        assert done.code == 1
        [_, rest] = done.out.split("  next ")
        if saved == "outputs.json":
            assert "polygraphy diagnose" not in rest
            assert "save all tensors" in rest
            continue
        found = polygraphy(f"{rest.splitlines()[0].strip()} --format json")
        assert found.code == 1, found.err
        assert json.loads(found.out)["culprits"][0]["nodes"] == ["conv2"]
