"""Verdict, counts, summary, saved file and exit code say the same, whatever was compared, and so do
commands about the same files.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from polygraphy import program
from polygraphy.application.compare.reevaluating import check_accuracy
from polygraphy.comparator import (
    AccuracyResults,
    Comparator,
    L2CompareFunc,
    PsnrCompareFunc,
    RunResults,
    SimpleCompareFunc,
)
from tests.support.examples import scaled
from tests.support.joined import detector
from tests.support.models import make, value

Outputs = dict[str, float]

NAMES = st.sampled_from(["custom_runner", "a", "onnxrt-runner-N0-11/22/26-19:09:01.123456"])
OUTPUTS = st.one_of(
    st.just({"y": 1.0}),
    st.fixed_dictionaries(
        {}, optional={"y": st.sampled_from([1.0, 2.0]), "z": st.sampled_from([1.0, 2.0])}
    ),
)
RUNS = st.lists(st.tuples(NAMES, st.lists(OUTPUTS, max_size=3)), min_size=2, max_size=4)
FUNCTIONS = {
    "simple": lambda: SimpleCompareFunc(check_error_stat="max"),
    "l2": L2CompareFunc,
    "psnr": PsnrCompareFunc,
}
SUMMARY = re.compile(r"\[(.)\] Accuracy Summary.*Passed: (\d+)/(\d+) .*Pass Rate: ([\d.]+)%")


def made(runs: list[tuple[str, list[Outputs]]]) -> RunResults:
    results = RunResults()
    for name, iterations in runs:
        arrays = [{key: np.array([value]) for key, value in one.items()} for one in iterations]
        one_run = RunResults()
        one_run.add(arrays, runner_name=name)
        results.append(one_run[0])
    return results


def differences(
    first: list[Outputs], second: list[Outputs], *, allow_missing: bool
) -> Iterator[bool]:
    """Yield, per iteration of two runs, whether it has to fail."""
    for index in range(max(len(first), len(second))):
        if index >= min(len(first), len(second)):
            yield True
            return
        one, other = first[index], second[index]
        shared = one.keys() & other.keys()
        yield (
            not shared
            or any(one[name] != other[name] for name in shared)
            or (not allow_missing and one.keys() != other.keys())
        )


def is_pairing_by_name(runs: list[tuple[str, list[Outputs]]]) -> bool:
    """Return whether no output is compared with one of another name, for want of its own."""
    steps = zip(*(iterations for _, iterations in runs))
    return not any({"y"} in map(set, step) and {"z"} in map(set, step) for step in steps)


@given(
    runs=RUNS.filter(is_pairing_by_name),
    function=st.sampled_from(sorted(FUNCTIONS)),
    average=st.booleans(),
    allow_missing=st.booleans(),
)
def test_verdict_counts_summary_file_and_exit_code_say_the_same(
    runs: list[tuple[str, list[Outputs]]], function: str, average: bool, allow_missing: bool
) -> None:
    kept: list[AccuracyResults] = []
    with tempfile.TemporaryDirectory() as folder:
        outputs, saved = Path(folder) / "outputs.json", Path(folder) / "accuracy.json"
        made(runs).save(outputs)

        def compare() -> bool:
            verdicts = Comparator.compare_accuracy(
                made(runs),
                compare_func=FUNCTIONS[function](),
                check_average=average,
                allow_missing_outputs=allow_missing,
                add_to_outputs_path=str(outputs),
            )
            verdicts.save(saved)
            kept.append(verdicts)
            return bool(verdicts)

        code, log = logged(compare)
        has_to_fail = [
            list(differences(first, second, allow_missing=allow_missing))
            for (_, first), (_, second) in pairwise(runs)
        ]
        assert (code == 0) == all(each and not any(each) for each in has_to_fail)
        if code == 4:
            assert not saved.exists()
            return
        [verdict] = kept[0]
        assert code == (0 if kept[0] else 1)
        lines = [match.groups() for match in map(SUMMARY.search, log.splitlines()) if match]
        assert len(lines) == len(verdict) == len(has_to_fail)
        for position, (severity, matched, total, rate) in enumerate(lines):
            stats = verdict.stats(position)
            passed = 0 < stats[0] == stats[2]
            assert passed is (bool(has_to_fail[position]) and not any(has_to_fail[position]))
            assert stats == (int(matched), int(total) - int(matched), int(total))
            assert (severity == "I") is passed is (verdict.percentage(position) == 1)
            assert float(rate) == pytest.approx(100 * verdict.percentage(position), abs=0.051)
        assert bool(AccuracyResults.load(saved)) is bool(kept[0])
        again, report = logged(lambda: check_accuracy(str(saved)))
        assert again == code
        assert [match.groups() for match in map(SUMMARY.search, report.splitlines()) if match] == [
            *lines
        ]
        failing = verdict.failed_names()
        facts = json.loads(outputs.read_text())["comparison_results"]
        assert {name for name, fact in facts.items() if not fact["passed"]} == failing


def logged(main: Any) -> tuple[int, str]:
    """Run a program's main function; return its exit code and what it logged."""
    stream = StringIO()
    with redirect_stdout(stream), redirect_stderr(stream):
        code = program.exit_code(main)
    return code, stream.getvalue()


WANT = re.compile(r"nothing to compare|were not saved|was saved for|holds results? of")
"""How a diagnosis says that it lacked something."""


@settings(
    max_examples=scaled(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_run_and_a_diagnosis_of_the_same_files_do_not_contradict(
    data: st.DataObject,
    polygraphy: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def drawn(*choices: Any, label: str) -> Any:
        return data.draw(st.sampled_from(choices), label)

    folder = tmp_path_factory.mktemp("same")
    ends = {"y"} | data.draw(st.sets(st.sampled_from(sorted(ENDS))), "outputs")
    batch, seed = drawn(4, "N", label="batch"), drawn(0, 1, label="seed of the weights")
    fault = drawn("", "", *FAULTS, label="fault")
    onnx.save(chain(batch, ends, seed), folder / "right.onnx")
    onnx.save(chain(batch, ends, seed, fault), folder / "m.onnx")
    model = "m.onnx"
    if drawn(False, True, label="half"):
        model = "half.onnx"
        done = polygraphy(f"polygraphy convert m.onnx --fp-to-fp16 -o {model}", cwd=folder)
        assert done.code == 0, done.err
    options = drawn("", "--iterations 2", "--seed 3", "--val-range [-1,1]", label="data")
    options += " --input-shapes x:[3,6]" if batch == "N" else ""
    way = drawn("parties", "saved", "saved tensors", "reference", label="compared with")
    tolerance = drawn("", "--rtol auto", "--rtol 1e-2", "--atol auto y:1e-3", label="tolerance")
    if way == "parties":
        run, diagnosis = "--onnxrt --onnx", "--onnxrt --onnx"
    else:
        marks = "--onnx-outputs mark all" if way == "saved tensors" else ""
        saving = f"--onnxrt {options} {marks} --save-outputs g.json --save-inputs in.json"
        assert polygraphy(f"polygraphy run right.onnx {saving}", cwd=folder).code == 0
        options = drawn(options, "--load-inputs in.json", label="the same data")
        run = "--onnxrt --load-outputs g.json"
        diagnosis = "--onnxrt --golden g.json"
        diagnosis = "--onnxrt --reference right.onnx" if way == "reference" else diagnosis
    ran = polygraphy(f"polygraphy run {model} {run} {options} {tolerance}", cwd=folder)
    found = polygraphy(f"polygraphy diagnose {model} {diagnosis} {options}", cwd=folder)
    said = f"{ran.out}{ran.err}{found.out}{found.err}"
    assert ran.code in {0, 1} and found.code in {0, 1, 4}, said
    assert not WANT.search(found.out + found.err), said
    if tolerance == "--rtol auto" and "left out" not in ran.out and "only one side" not in said:
        assert (ran.code, found.code) not in {(1, 0), (0, 1)}, said
    for line in ran.lines:
        word, _, command = line.strip().partition(" ")
        if word == "next" and command.strip().startswith("polygraphy "):
            again = polygraphy(command.strip(), cwd=folder)
            assert again.code in {0, 1, 4}, said + again.err
            assert not WANT.search(again.out + again.err), said + again.out + again.err


ENDS = {
    "y": ("Identity", TensorProto.FLOAT, 6, {}),
    "probabilities": ("Softmax", TensorProto.FLOAT, 6, {}),
    "class": ("ArgMax", TensorProto.INT64, 1, {"axis": 1}),
    "joined": ("Concat", TensorProto.FLOAT, 12, {"axis": 1}),
    "masked": ("Where", TensorProto.FLOAT, 6, {}),
}
FAULTS = ("weight", "part", "program")
"""A weight differs, the small part of what is joined is zero, or the model is another program."""


def chain(batch: Any, ends: set[str], seed: int, fault: str = "") -> onnx.ModelProto:
    """Three products of matrices, each behind a Tanh, and outputs."""
    random = np.random.RandomState(seed)
    weights = {f"w{at}": random.randn(6, 6).astype(np.float32) for at in range(3)}
    weights["w1"][2, 3] += np.float32(1.5 * (fault == "weight"))
    weights["factor"] = np.array(0.0 if fault == "part" else 0.9, np.float32)
    weights |= {"many": np.array(1e5, np.float32), "fill": np.array(-1e9, np.float32)}
    weights["mask"] = random.rand(6) < 0.4
    nodes, read = [], "x"
    for at in range(3):
        op = "Sigmoid" if fault == "program" and at == 1 else "Tanh"
        nodes.append(helper.make_node("MatMul", [read, f"w{at}"], [f"m{at}"], f"product{at}"))
        nodes.append(helper.make_node(op, [f"m{at}"], [f"t{at}"], f"tanh{at}"))
        read = f"t{at}"
    nodes.append(helper.make_node("Mul", [read, "factor"], ["small"], "small part"))
    nodes.append(helper.make_node("Mul", ["m2", "many"], ["large"], "large part"))
    reads = {"joined": ["small", "large"], "masked": ["mask", "fill", read]}
    outputs = []
    for name in sorted(ends):
        op, kind, size, attributes = ENDS[name]
        made = helper.make_node(op, reads.get(name, [read]), [name], f"end {name}", **attributes)
        nodes.append(made)
        outputs.append(value(name, [batch, size], kind))
    kept = [node for node in nodes if "part" not in node.name or "joined" in ends]
    names = {each for node in kept for each in node.input}
    weights = {name: array for name, array in weights.items() if name in names}
    return make("chain", kept, [value("x", [batch, 6])], outputs, weights=weights)


def test_run_and_diagnose_fail_of_the_same_part(polygraphy, tmp_path):
    """An int8 detector that loses its scores: both commands say where, with the same exit code."""
    onnx.save(detector(), tmp_path / "right.onnx")
    onnx.save(detector("together"), tmp_path / "wrong.onnx")
    onnx.save(detector("apart"), tmp_path / "healthy.onnx")
    part = "scores (output[:, 4:6])"
    polygraphy("polygraphy run right.onnx --onnxrt --save-outputs right.json", cwd=tmp_path)
    for name, code in (("wrong", 1), ("healthy", 0)):
        auto = f"{name}.onnx --onnxrt --load-outputs right.json --rtol auto --report {name}.json"
        run = polygraphy(f"polygraphy run {auto}", cwd=tmp_path)
        found = polygraphy(
            f"polygraphy diagnose {name}.onnx --onnxrt --reference right.onnx", cwd=tmp_path
        )
        assert (run.code, found.code) == (code, code)
        assert (f"part {part}" in run.out) == (f"in {part}" in found.out) == bool(code)
        document = json.loads((tmp_path / f"{name}.json").read_text())
        assert document["comparisons"][0]["outputs"][0]["part"] == (part if code else None)
