"""The comparison functions of `polygraphy run`, and what goes with them, as users run them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]

RUN = "polygraphy run identity_fp16.onnx --onnxrt --load-inputs i.json --load-outputs o.json"


@pytest.fixture
def rounded(identity_dir: Path, polygraphy: Run) -> Path:
    """Save inputs i.json and outputs o.json, from which those of the float16 model differ a
    little.
    """
    polygraphy("polygraphy run identity.onnx --onnxrt --save-inputs i.json --save-outputs o.json")
    return identity_dir


@pytest.mark.parametrize(
    ("function", "option", "good", "bad", "line"),
    [
        ("l2", "--l2-threshold", "1e-3", "1e-5", "L2 Norm: 0.00014282 (tolerance: "),
        ("l2", "--l2-tolerance", "y:1e-3", "1e-3 y:1e-5", "L2 Norm: 0.00014282 (tolerance: "),
        ("normalized_l2", "--normalized-l2-threshold", "1e-3", "1e-5", "Normalized L2 Norm: 0.00"),
        (
            "cosine_similarity",
            "--cosine-similarity-threshold",
            "0.9",
            "1",
            "Cosine Similarity: ",
        ),
        ("psnr", "--psnr-threshold", "60", "90", "PSNR: 80.07"),
        ("psnr", "--psnr-tolerance", "60", "90", "PSNR: 80.07"),
        ("snr", "--snr-threshold", "60", "90", "SNR: 75.84"),
        ("snr", "--snr-tolerance", "60", "90", "SNR: 75.84"),
        ("sqnr", "--sqnr-threshold", "60", "90", "SQNR: 75.84"),
    ],
)
def test_thresholds_decide(
    rounded: Path, polygraphy: Run, function: str, option: str, good: str, bad: str, line: str
) -> None:
    passed = polygraphy(f"{RUN} --compare {function} {option} {good}")
    failed = polygraphy(f"{RUN} --compare {function} {option} {bad}")
    assert (passed.code, failed.code) == (0, 1)
    assert line in passed.out
    assert line in failed.out
    assert ") | PASSED" in passed.out
    assert ") | FAILED" in failed.out
    assert f"Accuracy Summary | {function} |" in failed.out
    assert "(as given)" in failed.out


def test_several_functions_must_all_pass(rounded: Path, polygraphy: Run) -> None:
    assert polygraphy(f"{RUN} --compare quality_metrics").code == 0
    done = polygraphy(f"{RUN} --compare quality_metrics distance_metrics psnr --log-format legacy")
    assert done.code == 1
    summaries = [line for line in done.lines if "Accuracy Summary" in line]
    labels = [line.split(" | ")[1] for line in summaries]
    assert labels == ["psnr", "snr", "l2", "cosine_similarity"]
    assert "The smallest threshold that passes is 0.00015." in done.out


def test_shapes_that_differ_may_be_reconciled(rounded: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import RunResults

    saved = RunResults.load("o.json")
    saved[0][1][0]["y"] = saved[0][1][0]["y"].reshape(4)
    saved.save("flat.json")
    command = "polygraphy run identity.onnx --onnxrt --load-inputs i.json --load-outputs flat.json"
    assert polygraphy(f"{command} --compare l2").code == 1
    assert polygraphy(f"{command} --compare l2 --no-shape-check").code == 0


def test_perceptual_metrics_never_pass_unmeasured(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy run identity.onnx --onnxrt --onnx --compare perceptual_metrics --lpips-threshold 9"
    )
    assert done.code == 3
    assert "perceptual_metrics is not available: it needs LPIPS" in done.err


def test_the_largest_elements_are_compared(rounded: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import IterationResult, RunResults

    def save(path: str, *numbers: float) -> None:
        outputs = IterationResult({"y": np.array([numbers], np.float32)}, runner_name=path)
        RunResults([(path, [outputs])]).save(path)

    save("a.json", 5, 4, 3, 2, 1)
    save("b.json", 4, 5, 3, 1, 2)
    command = "polygraphy run --load-outputs a.json b.json --compare indices"
    for options, code in (
        ("--postprocess top-3", 1),
        ("--postprocess top-3 --index-tolerance 1", 0),
        ("--postprocess y:top-3 --index-tolerance y:1", 0),
        ("--postprocess top-1,axis=0", 0),
        ("--postprocess top-3 --index-tolerance 3", 1),
    ):
        assert polygraphy(f"{command} {options}").code == code, options
    failed = polygraphy(f"{command} --postprocess top-3")
    assert "2 of 3 entries are misplaced (index tolerance: 0)" in failed.out
    assert "the first is 0 at (0, 0), which the other run has at place 1" in failed.out


def test_scripts_compare_and_change_outputs(identity_dir: Path, polygraphy: Run) -> None:
    command = "polygraphy run identity.onnx --onnxrt --onnx --iterations 2"
    done = polygraphy(f"{command} --compare-func-script compare.py")
    assert done.code == 0
    assert "COMPARED 1" in done.out
    assert "COMPARED 2" in done.out  # The script ran once: it went on counting.
    for symbol in ("Never", "never"):
        assert polygraphy(f"{command} --compare-func-script compare.py:{symbol}").code == 1
    doubled = f"{command} --postprocess-func-script compare.py:double --check-error-stat max"
    with_plain = polygraphy(f"{doubled} --save-accuracy-results a.json")
    assert with_plain.code == 0
    missing = polygraphy(f"{command} --compare-func-script compare.py:nothing")
    assert missing.code == 2
    assert "'nothing' does not exist" in missing.err
    assert polygraphy(f"{command} --compare-func-script nowhere.py").code == 2


def test_outputs_are_changed_before_they_are_compared(rounded: Path, polygraphy: Run) -> None:
    (rounded / "flatten.py").write_text(
        "def postprocess_outputs(outputs):\n"
        "    return {name: array.round(2) for name, array in outputs.items()}\n"
    )
    assert polygraphy(f"{RUN} --compare l2").code == 1
    changed = polygraphy(
        f"{RUN} --compare l2 --postprocess-func-script flatten.py --l2-threshold 1e-4"
    )
    assert changed.code == 0


def test_the_average_of_iterations_is_judged(identity_dir: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import IterationResult, RunResults

    for path, numbers in (("a.json", (0, 0)), ("b.json", (0, 1))):
        RunResults(
            [(path, [IterationResult({"y": np.array([n], np.float32)}) for n in numbers])]
        ).save(path)
    command = "polygraphy run --load-outputs a.json b.json --compare l2 --l2-threshold 0.5"
    assert polygraphy(command).code == 1
    options = "--check-average --save-accuracy-results v.json --log-format legacy"
    done = polygraphy(f"{command} {options}")
    assert done.code == 0
    assert "Passed: 1/1 outputs on average | Pass Rate: 100.0%" in done.out
    assert "1 output matched on average over 2 iterations; largest error: 100% of the" in done.out
    assert json.loads((identity_dir / "v.json").read_text())["lst"][0]["aggregation"] == "average"


def test_outputs_of_one_side_may_be_left_out(identity_dir: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import IterationResult, RunResults

    for path, names in (("a.json", "xy"), ("b.json", "y")):
        outputs = IterationResult({name: np.ones(2, np.float32) for name in names})
        RunResults([(path, [outputs])]).save(path)
    command = "polygraphy run --load-outputs a.json b.json"
    assert polygraphy(command).code == 1
    done = polygraphy(f"{command} --allow-missing-outputs")
    assert done.code == 0
    assert "Not compared, because only one of a.json and b.json has it: x." in done.out


def test_verdicts_are_saved(rounded: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import AccuracyResults

    done = polygraphy(f"{RUN} --compare simple l2 indices --save-accuracy-results v.json")
    assert done.code == 1
    saved = AccuracyResults.load("v.json")
    assert [verdict.label for verdict in saved[:2]] == ["simple", "l2"]
    assert [bool(verdict) for verdict in saved] == [False, False, False]
    assert saved[1][0][1][0]["y"].l2_norm == pytest.approx(1.4282e-4, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--check-average --fail-fast --compare l2",
            "--check-average and --fail-fast cannot be combined",
        ),
        (
            "--check-average --compare l2 indices",
            "--check-average and --compare indices cannot be combined",
        ),
        ("--check-average", "--check-average requires a statistic"),
        (
            "--check-average --check-error-stat max y:elemwise",
            "--check-average requires a statistic",
        ),
        ("--compare l3", "'l3' is not one of simple, indices, l2"),
        ("--postprocess bottom-3", "'bottom-3' is not a post-processing step such as top-5"),
        ("--postprocess top-0", "'top-0' is not a post-processing step such as top-5"),
        ("--cosine-similarity-threshold 2", "2 is not allowed: use numbers from -1 to 1"),
        ("--index-tolerance -1", "-1 is less than 0"),
        ("--save-accuracy-results x.json --save-outputs x.json", "have the same path, x.json"),
    ],
)
def test_options_that_exclude_each_other(
    identity_dir: Path, polygraphy: Run, options: str, message: str
) -> None:
    done = polygraphy(f"polygraphy run identity.onnx --onnxrt --onnx {options}")
    assert done.code == 2
    assert message in done.err


def test_verdicts_need_a_comparison(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run identity.onnx --onnxrt --save-accuracy-results v.json")
    assert done.code == 2
    assert "--save-accuracy-results needs a comparison" in done.err
    assert not (identity_dir / "v.json").exists()


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (
            "--compare psnr --rtol 1 --l2-threshold 1 --no-shape-check",
            "--rtol, --l2-threshold: not used by the functions that --compare selects: psnr",
        ),
        (
            "--snr-threshold 1",
            "--snr-threshold: not used by the functions that --compare selects: simple",
        ),
        (
            "--compare-func-script compare.py --compare l2 --atol 1",
            "--compare, --atol: not used, because --compare-func-script is used instead",
        ),
        (
            "--postprocess top-1 --postprocess-func-script compare.py:double",
            "--postprocess: not used, because --postprocess-func-script is used instead",
        ),
        ("--compare l2 simple --l2-threshold 1 --rtol 1", ""),
    ],
)
def test_options_of_functions_that_are_not_used_are_warned_about(
    identity_dir: Path, polygraphy: Run, options: str, warning: str
) -> None:
    done = polygraphy(f"polygraphy run identity.onnx --onnxrt --onnx {options}")
    assert done.code == 0
    warnings = [line for line in done.err.splitlines() if line.startswith("[W]")]
    assert len(warnings) == bool(warning)
    assert warning in done.err


def test_auto_is_what_rounding_explains(rounded: Path, polygraphy: Run) -> None:
    failed = polygraphy(RUN)
    assert failed.code == 1
    assert "rounding? Yes: " in failed.out
    assert "enough for all failed outputs" in failed.out
    passed = polygraphy(f"{RUN} --rtol auto --atol auto")
    assert passed.code == 0
    assert "float16, in which it was computed" in passed.out
    assert polygraphy(f"{RUN} --rtol auto").code == 0
    assert polygraphy(f"{RUN} --rtol y:auto 1e-9 --atol 0").code == 0
    wrong = polygraphy(f"{RUN} --rtol sloppy")
    assert wrong.code == 2
    assert "'sloppy' is not a number" in wrong.err


@pytest.mark.parametrize(
    ("function", "option", "good", "bad", "line"),
    [
        ("ulp", "--ulp-threshold", "1", "y:1e-3", "computed_in=float16"),
        ("bias", "--bias-threshold", "1e-3", "1e-6", "Bias: "),
        ("non_finite", "--non-finite-threshold", "0", None, "Non-Finite Mismatches: 0"),
        ("top_k", "--top-k-threshold", "1", None, "Top-K Agreement: 1"),
        ("error_distribution", "--error-distribution-threshold", "1e-3", "1e-5", "p95="),
    ],
)
def test_thresholds_of_functions_that_tell_more(
    rounded: Path, polygraphy: Run, function: str, option: str, good: str, bad: Any, line: str
) -> None:
    passed = polygraphy(f"{RUN} --compare {function} {option} {good}")
    assert passed.code == 0
    assert line in passed.out
    assert bad is None or polygraphy(f"{RUN} --compare {function} {option} {bad}").code == 1


def test_the_entries_and_the_margin_of_top_k(rounded: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import RunResults

    saved = RunResults.load("o.json")
    saved[0][1][0]["y"] = saved[0][1][0]["y"][..., ::-1].copy()
    saved.save("o.json")
    swapped = f"{RUN} --compare top_k"
    assert polygraphy(swapped).code == 1
    assert polygraphy(f"{swapped} --top-k-threshold 0").code == 0
    assert polygraphy(f"{swapped} --top-k-margin y:1").code == 0
    too_many = polygraphy(f"{swapped} --top-k 2")
    assert too_many.code == 1
    assert "nothing would be compared" in too_many.out
    unused = polygraphy(f"{RUN} --compare l2 --l2-threshold 1 --top-k 2")
    assert "--top-k: not used" in unused.err


def test_saved_outputs_also_hold_plain_values_and_the_comparison(
    rounded: Path, polygraphy: Run
) -> None:
    assert polygraphy(f"{RUN} --save-outputs r.json").code == 1
    tree = json.loads(Path("r.json").read_text())
    (runner,) = tree["inference_results"]
    assert runner == "onnxrt-runner"
    assert np.shape(tree["inference_results"][runner]["y"]) == (1, 1, 2, 2)
    found = tree["comparison_results"]["y"]
    assert found["passed"] is False
    assert found["max_error"] == pytest.approx(0.00010967, rel=1e-4)
    assert found["mean_error"] == pytest.approx(5.6492e-05, rel=1e-4)
    assert len(found["error_distribution"]["histogram"]["counts"]) == 10
    polygraphy("polygraphy run identity.onnx --onnxrt --save-outputs single.json")
    assert "comparison_results" not in json.loads(Path("single.json").read_text())
    assert polygraphy("polygraphy inspect data r.json").code == 0


def test_a_quantile_that_is_not_checked_is_reported(rounded: Path, polygraphy: Run) -> None:
    done = polygraphy(f"{RUN} --rtol 1 --error-quantile 0.5")
    assert "--error-quantile: not used" in done.err
    used = polygraphy(f"{RUN} --rtol 1 --check-error-stat quantile --error-quantile 0.5")
    assert "not used" not in used.err
    per_output = polygraphy(f"{RUN} --rtol 1 --check-error-stat y:quantile --error-quantile 0.5")
    assert "not used" not in per_output.err


def test_a_threshold_of_another_function_says_what_there_is(rounded: Path, polygraphy: Run) -> None:
    polygraphy(f"{RUN} --save-accuracy-results a.json")
    done = polygraphy("polygraphy check accuracy a.json --l2-threshold 1")
    assert done.code == 2
    assert "differences of the function simple" in done.err


def test_saved_results_are_judged_by_function(rounded: Path, polygraphy: Run) -> None:
    polygraphy(f"{RUN} --rtol 1 --compare simple l2 --save-accuracy-results a.json")
    assert polygraphy("polygraphy check accuracy a.json").code == 1  # l2 fails, simple passes.
    done = polygraphy("polygraphy check accuracy a.json --compare simple")
    assert done.code == 0
    assert "Skipped, because not selected: l2." in done.out
    assert polygraphy("polygraphy check accuracy a.json --compare simple l2").code == 1
    absent = polygraphy("polygraphy check accuracy a.json --compare distance_metrics")
    assert absent.code == 2
    assert "no results of the comparison function cosine_similarity" in absent.err


def test_saved_results_are_judged_on_average(rounded: Path, polygraphy: Run) -> None:
    polygraphy(f"{RUN} --iterations 2 --rtol 1 --compare l2 --save-accuracy-results l2.json")
    done = polygraphy("polygraphy check accuracy l2.json --check-average --l2-threshold 1")
    assert done.code == 0
    assert "PASSED  1 output matched; " in done.out
    polygraphy(f"{RUN} --rtol 1 --save-accuracy-results a.json")
    by_element = polygraphy("polygraphy check accuracy a.json --check-average")
    assert by_element.code == 2
    assert "element by element, and single elements have no average" in by_element.err
    statistic = "polygraphy check accuracy a.json --check-average --check-error-stat max"
    assert polygraphy(statistic).code == 0
