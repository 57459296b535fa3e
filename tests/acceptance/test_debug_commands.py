"""Command lines that search for what is to blame, with the real ONNX Runtime, and builds of
TensorRT-RTX.
"""

from __future__ import annotations

import io
import json
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.cli.main import main
from tests.acceptance.conftest import Done
from tests.support import models

Run = Callable[..., Done]
RTX = {"POLYGRAPHY_USE_TENSORRT_RTX": "1"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def two_branches() -> onnx.ModelProto:
    """Return a chain of six nodes beside one of two, which are added in the end."""
    ops = ["Relu", "Neg", "Exp", "Neg", "Tanh", "Abs"]
    nodes = [
        helper.make_node(
            op, ["x" if index == 0 else f"t{index - 1}"], [f"t{index}"], name=f"n{index}"
        )
        for index, op in enumerate(ops)
    ]
    nodes += [
        helper.make_node("Mul", ["x", "w"], ["side"], name="side"),
        helper.make_node("Sigmoid", ["side"], ["gate"], name="gate"),
        helper.make_node("Add", ["t5", "gate"], ["y"], name="sum"),
    ]
    weights = {"w": np.full(4, 3, np.float32)}
    inputs, outputs = [models.value("x", ("batch", 4))], [models.value("y", ("batch", 4))]
    return models.make("two_branches", nodes, inputs, outputs, weights=weights)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Return a function that runs a command line in this process, which takes much less time."""

    def run(command: str, answers: str = "") -> Done:
        words = shlex.split(command)
        monkeypatch.setattr("sys.argv", words)
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        try:
            code = main(words[1:])
        except SystemExit as end:  # The program was run.
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


# C050, C060: no check is given.


def test_without_a_check_and_without_answers_one_line_says_what_to_do(
    here: Run, folder: Path
) -> None:
    models.save(two_branches(), folder / "model.onnx")
    done = here("polygraphy debug reduce model.onnx --output minimal_problem.onnx")
    assert done.code == 1
    assert [line for line in done.err.splitlines() if "[!]" in line] == [
        "[!] No answer: standard input has ended. Add --check and a command that fails if"
        " the problem is present."
    ]
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]


def test_answers_lead_to_a_part_of_the_model(here: Run, folder: Path) -> None:
    models.save(two_branches(), folder / "model.onnx")
    done = here("polygraphy debug reduce model.onnx --mode=bisect -o reduced.onnx", "f\n" * 20)
    assert done.code == 0, done.out + done.err
    assert len(onnx.load("reduced.onnx").graph.node) == 1
    done = here("polygraphy debug reduce model.onnx -o whole.onnx", "f\n" + "p\n" * 20)
    assert done.code == 0, done.out + done.err
    assert onnx.load("whole.onnx").graph.node == onnx.load("model.onnx").graph.node


# The story of a model with a wrong node, and a reference that was saved without it.


@pytest.mark.slow
def test_the_wrong_node_is_found_and_other_failures_do_not_count(
    polygraphy: Run, here: Run, folder: Path
) -> None:
    right, wrong = two_branches(), two_branches()
    next(node for node in wrong.graph.node if node.name == "n2").op_type = "Softplus"
    models.save(right, folder / "right.onnx")
    models.save(wrong, folder / "wrong.onnx")
    golden = here(
        "polygraphy run right.onnx --onnxrt --onnx-outputs '*' --save-inputs inputs.json"
        " --save-outputs layers.json --input-shapes x:[3,4]"
    )
    assert golden.code == 0
    check = (
        "polygraphy run polygraphy_debug.onnx --onnxrt --load-inputs part.json --load-outputs"
        " layers.json --allow-missing-outputs"
    )
    command = (
        "polygraphy debug reduce wrong.onnx -o reduced.onnx --min-good good.onnx --load-inputs"
        " inputs.json --save-inputs part.json --save-debug-replay replay.json --fail-regex 'FAILED . Accuracy' FAILED.*Output"
        f" --check {check}"
    )
    done = polygraphy(command)
    assert done.code == 0, done.out + done.err
    assert [node.name for node in onnx.load("reduced.onnx").graph.node] == ["n2"]
    assert "n2" not in [node.name for node in onnx.load("good.onnx").graph.node]
    replay = json.loads(Path("replay.json").read_text())
    assert len(replay) <= 9
    shutil.copy("reduced.onnx", "polygraphy_debug.onnx")
    assert here(check).code == 1  # The reduced model fails by itself.


def test_a_model_that_passes_is_inconclusive(here: Run, folder: Path) -> None:
    models.save(two_branches(), folder / "model.onnx")
    done = here("polygraphy debug reduce model.onnx -o reduced.onnx --check true")
    assert done.code == 4
    assert "Nothing to reduce" in done.err
    assert not Path("reduced.onnx").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("debug reduce model.onnx --check no-such-program", "'no-such-program' does not exist"),
        ("debug reduce model.onnx --check", "a command must follow"),
        ("debug reduce model.onnx --fail-regex ( --check true", "not a regular expression"),
        ("debug reduce model.onnx --artifacts model.onnx --check false", "same path"),
        ("debug reduce model.onnx --iter-artifact model.onnx --check false", "same path"),
        (
            "debug reduce model.onnx --fail-code 1 --ignore-fail-code 2 --check false",
            "cannot be combined",
        ),
        ("debug reduce model.onnx --no-reduce-inputs --no-reduce-outputs", "cannot be combined"),
        (
            "debug reduce model.onnx --mode ddmin --no-reduce-inputs --check false",
            "cannot be combined",
        ),
        ("debug repeat --check true", "missing --until"),
        ("debug repeat --until 0 --check true", "less than 1"),
        ("debug repeat --until sometimes --check true", "good, bad, or a number"),
        ("debug build a.engine --until 1 --check true", "of type engine"),
        ("debug build model.onnx --until 1 --num-iterations 2", "cannot be combined"),
        ("debug precision model.onnx --golden-outputs a.json --check true", "replaces the check"),
        ("debug precision model.onnx --save-layer-outputs a.json", "requires --golden-outputs"),
        ("debug precision model.onnx -p float16 --check true", "requires --fp16"),
    ],
)
def test_what_cannot_be_meant_is_said_in_a_line(
    here: Run, folder: Path, command: str, said: str
) -> None:
    models.save(two_branches(), folder / "model.onnx")
    done = here(f"polygraphy {command}")
    assert done.code == 2
    assert said in done.err
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]


def test_repeating_sorts_what_the_check_writes(here: Run, folder: Path) -> None:
    (folder / "flaky.sh").write_text(
        "echo x >> count; cp count seen; test $(wc -l < count) -lt 3\n"
    )
    done = here(
        "polygraphy debug repeat --until bad --artifacts seen --art-dir sorted --check sh flaky.sh"
    )
    assert done.code == 0
    assert "Finished 3 iteration(s) | Passed: 2/3 | Pass Rate: 66.7%" in done.out
    assert len(list(Path("sorted/good").iterdir())) == 2
    assert len(list(Path("sorted/bad").iterdir())) == 1


# TensorRT-RTX builds without a GPU, and runs nothing.


def test_engines_are_built_and_sorted(polygraphy: Run, folder: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    models.save(models.mlp(), folder / "model.onnx")
    done = polygraphy(
        "polygraphy debug build model.onnx --until 2 --fp16 --artifacts polygraphy_debug.engine"
        " --check test -s polygraphy_debug.engine",
        env=RTX,
    )
    assert done.code == 0, done.out + done.err
    assert "Passed: 2/2" in done.out
    assert len(list(Path("polygraphy_artifacts/good").iterdir())) == 2
    assert not list(folder.glob("polygraphy_debug.engine*"))


def test_the_layers_that_need_more_precision_are_named(polygraphy: Run, folder: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    models.save(models.mlp(), folder / "model.onnx")
    # A plan says what it was built from: only engines in which the first product is kept pass.
    (folder / "check.py").write_text(
        "import json\n"
        "state = list(json.load(open('replay_skip_current.json')).values())[-1]['state']\n"
        "raise SystemExit(state['raised'] < 2)\n"
    )
    done = polygraphy(
        "polygraphy debug precision model.onnx --dir reverse --save-debug-replay replay.json"
        f" --check {sys.executable} check.py",
        env=RTX,
    )
    assert done.code == 0, done.out + done.err
    assert "The check passes with 2 of 3 layers in higher precision" in done.out
    assert "Building with --fp16" in done.err


def overflowing() -> onnx.ModelProto:
    """Return a model in which `large` is too large for fp16, and `back` reads that."""
    ops = [("Add", "before", 0.5), ("Mul", "large", 1e4), ("Mul", "larger", 1e4)]
    ops += [("Mul", "back", 1e-8), ("Add", "after", 0.5)]
    nodes, weights, last = [], {}, "x"
    for op, name, constant in ops:
        weights[f"{name}_w"] = np.array([constant], np.float32)
        made = "y" if name == "after" else f"{name}_out"
        nodes.append(helper.make_node(op, [last, f"{name}_w"], [made], name=name))
        last = made
    inputs, outputs = [models.value("x", (2, 4))], [models.value("y", (2, 4))]
    return models.make("overflowing", nodes, inputs, outputs, weights=weights)


def test_nodes_that_have_to_stay_in_fp32_are_found_without_tensorrt(
    here: Run, folder: Path
) -> None:
    models.save(overflowing(), folder / "m.onnx")
    done = here("polygraphy debug precision m.onnx --onnxrt")
    assert done.code == 0
    assert "overflow: Mul 'larger'" in done.out
    command = "polygraphy convert m.onnx --fp-to-fp16 --cast-keep-nodes larger back -o m_fp16.onnx"
    assert command in done.out
    assert here(command).code == 0
    compared = here("polygraphy run m_fp16.onnx --onnx --validate --val-range [-1,1]")
    assert compared.code == 0
    plain = "polygraphy convert m.onnx --fp-to-fp16 -o plain.onnx"
    assert here(plain).code == 0
    assert here("polygraphy run plain.onnx --onnx --validate").code == 1


@pytest.mark.parametrize("outputs", ["", " --onnx-outputs '*'"])
def test_each_cast_model_can_be_compared_with_saved_outputs(
    polygraphy: Run, folder: Path, outputs: str
) -> None:
    """ONNX Runtime's kernels for the CPU would hide that `larger` is too large for fp16."""
    models.save(overflowing(), folder / "m.onnx")
    saved = f"polygraphy run m.onnx --onnxrt{outputs} --save-outputs g.json --save-inputs i.json"
    assert polygraphy(saved).code == 0
    done = polygraphy(
        "polygraphy debug precision m.onnx --onnxrt --golden-outputs g.json --load-inputs i.json"
    )
    assert done.code == 0
    assert "--cast-keep-nodes larger back -o m_fp16.onnx" in done.out
    assert len(done.out.splitlines()) <= 16
    assert not (folder / "polygraphy_debug.onnx").exists()
    done = polygraphy("polygraphy debug precision m.onnx --onnxrt --golden-outputs none.json")
    assert done.code == 2
    assert "none.json does not exist" in done.out + done.err


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (
            "other.onnx",
            "i.json",
            "g.json contains none of the outputs of the model ('q'), but 'y'.",
        ),
        (
            "m.onnx",
            "i.json i.json",
            "g.json contains results of 1 input set, but there are 2 now.",
        ),
    ],
)
def test_saved_outputs_of_something_else_are_refused_before_anything_is_cast(
    here: Run, folder: Path, model: str, data: str, said: str
) -> None:
    models.save(overflowing(), folder / "m.onnx")
    other = overflowing()
    other.graph.node[-1].output[0] = other.graph.output[0].name = "q"
    models.save(other, folder / "other.onnx")
    assert (
        here("polygraphy run m.onnx --onnxrt --save-outputs g.json --save-inputs i.json").code == 0
    )
    words = f"{model} --onnxrt --golden-outputs g.json --load-inputs {data}"
    done = here(f"polygraphy debug precision {words}")
    assert done.code == 2
    assert said in done.err and "fails" not in done.out


def test_saved_outputs_behind_an_equals_sign_are_checked_first(here: Run, folder: Path) -> None:
    models.save(overflowing(), folder / "m.onnx")
    saved = "polygraphy run m.onnx --onnxrt --save-outputs g.json --save-inputs i.json"
    assert here(saved).code == 0
    check = "--check polygraphy run polygraphy_debug.onnx --onnx --load-outputs=g.json"
    done = here(f"polygraphy debug precision m.onnx --onnxrt --load-inputs i.json i.json {check}")
    assert done.code == 2
    assert "g.json contains results of 1 input set, but there are 2 now." in done.err


def test_one_input_set_of_a_part_is_not_compared_with_results_of_several(
    here: Run, folder: Path
) -> None:
    models.save(overflowing(), folder / "m.onnx")
    saved = (
        "polygraphy run m.onnx --onnxrt --iterations 2 --save-outputs g.json --save-inputs i.json"
    )
    assert here(saved).code == 0
    done = here(
        "polygraphy debug reduce m.onnx -o r.onnx --load-inputs i.json --save-inputs part.json"
        " --check polygraphy run polygraphy_debug.onnx --onnxrt --load-inputs part.json"
        " --load-outputs g.json"
    )
    assert done.code == 2
    assert "g.json contains results of 2 input sets, but each check runs one." in done.err


def test_each_cast_model_can_be_checked_by_a_command(polygraphy: Run, folder: Path) -> None:
    models.save(overflowing(), folder / "m.onnx")
    done = polygraphy(
        "polygraphy debug precision m.onnx --onnxrt --check polygraphy run polygraphy_debug.onnx"
        " --onnx --validate"
    )
    assert done.code == 0
    assert "--cast-keep-nodes larger back -o m_fp16.onnx" in done.out
    assert not (folder / "polygraphy_debug.onnx").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--fp16 --bf16", "--fp16 and --bf16 cannot be combined"),
        ("--rtol y:0.5", "--rtol must be one number"),
        ("--golden-outputs g.json --check true", "--golden-outputs replaces the check"),
    ],
)
def test_what_the_search_without_tensorrt_refuses(
    here: Run, folder: Path, words: str, said: str
) -> None:
    models.save(overflowing(), folder / "m.onnx")
    done = here(f"polygraphy debug precision m.onnx --onnxrt {words}")
    assert done.code == 2
    assert said in done.err + done.out
