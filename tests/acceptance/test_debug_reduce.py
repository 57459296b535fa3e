"""`debug reduce` with commands that check: side by side, several data, several culprits, proof."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.acceptance.conftest import Done
from tests.support import models

Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def chain(*ops: str, last: str = "y") -> onnx.ModelProto:
    """Return a model of nodes n0, n1 and so on, one after another."""
    nodes, before = [], "x"
    for number, op in enumerate(ops):
        after = last if number == len(ops) - 1 else f"t{number}"
        nodes.append(helper.make_node(op, [before], [after], name=f"n{number}"))
        before = after
    inputs, outputs = [models.value("x", (2, 4))], [models.value(last, (2, 4))]
    return models.make("chain", nodes, inputs, outputs)


def nodes_of(path: str) -> list[str]:
    return [node.name for node in onnx.load(path).graph.node]


def reduce(polygraphy: Run, check: str, *options: str) -> Done:
    return polygraphy(
        f"polygraphy debug reduce m.onnx -o r.onnx {' '.join(options)} --check {check}"
    )


MANY = ["Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Exp"] * 4
HAS = "grep -q {0} polygraphy_debug.onnx && exit 1; exit 0\n"


@pytest.mark.parametrize("mode", ["bisect", "linear", "ddmin"])
def test_checks_side_by_side_find_the_same_and_leave_nothing(
    polygraphy: Run, folder: Path, mode: str
) -> None:
    models.save(chain(*MANY), folder / "m.onnx")
    (folder / "has.sh").write_text("echo run > own.txt\n" + HAS.format("n13"))
    (folder / "empty").mkdir()
    found, texts = [], []
    for jobs in (1, 3):
        done = reduce(
            polygraphy, "sh has.sh", f"--mode {mode} --jobs {jobs}", "--artifacts own.txt"
        )
        assert done.code == 0, done.out + done.err
        found.append(onnx.load("r.onnx"))
        rows = [line.split()[:2] for line in done.out.splitlines() if " s  " in line]
        texts.append(rows)
        assert sorted(path.name for path in folder.iterdir()) == [
            "empty", "has.sh", "m.onnx", "own.txt", "polygraphy_artifacts", "polygraphy_debug",
            "r.onnx",
        ]  # fmt: skip
        assert not (folder / "polygraphy_debug" / "jobs").exists()
    assert [node.name for node in found[0].graph.node] == ["n13"]
    assert found[0] == found[1]
    assert texts[0] == texts[1]


def test_the_console_is_short_and_each_check_has_a_log(polygraphy: Run, folder: Path) -> None:
    models.save(chain(*MANY), folder / "m.onnx")
    (folder / "has.sh").write_text("echo looked\n" + HAS.format("n13"))
    done = reduce(polygraphy, "sh has.sh", "--mode linear")
    assert done.code == 0
    assert len(done.lines) <= 20
    assert "Reduced from 24 to 1 node: Neg 'n13'" in done.out
    assert "Verified: r.onnx also fails the check in a new process" in done.out
    count = int(done.out.partition("Finished ")[2].split()[0])
    logs = {path.name for path in (folder / "polygraphy_debug").iterdir()}
    assert logs == {*(f"{number:02}.log" for number in range(count)), "proof.log"}
    assert (folder / "polygraphy_debug" / "00.log").read_text() == "looked\n"


def test_what_does_not_fail_from_scratch_is_not_proven(polygraphy: Run, folder: Path) -> None:
    models.save(chain(*MANY), folder / "m.onnx")
    # The last check, of what was saved, passes: the result of r.onnx is there by then.
    (folder / "flaky.sh").write_text("test -e r.onnx && exit 0\n" + HAS.format("n13"))
    done = reduce(polygraphy, "sh flaky.sh")
    assert done.code == 4
    assert "Not verified: r.onnx" in done.err + done.out
    assert "--check-runs" in done.err + done.out
    assert nodes_of("r.onnx") == ["n13"]


def test_a_failure_that_comes_and_goes_is_reduced_by_several_runs(
    polygraphy: Run, folder: Path
) -> None:
    models.save(chain(*MANY), folder / "m.onnx")
    (folder / "flaky.sh").write_text(
        "echo >> runs\n[ $(($(wc -l < runs) % 3)) = 0 ] || exit 0\n" + HAS.format("n13")
    )
    assert reduce(polygraphy, "sh flaky.sh").code == 4
    Path("runs").unlink()
    done = reduce(polygraphy, "sh flaky.sh", "--check-runs 3")
    assert done.code == 0, done.out + done.err
    assert nodes_of("r.onnx") == ["n13"]


def test_a_difference_does_not_become_a_nan(polygraphy: Run, folder: Path) -> None:
    """Cut in front of Sqrt, both sides hold NaN: that is not how the whole model fails."""
    right = chain("Neg", "Softplus", "Tanh", "Abs", "Sqrt", "Exp")
    wrong = chain("Neg", "Softplus", "Tanh", "Abs", "Sqrt", "Exp")
    wrong.graph.node[1].op_type = "Sigmoid"
    for name, model in (("right", right), ("m", wrong)):
        models.save(model, folder / f"{name}.onnx")
    given = polygraphy(
        "polygraphy run right.onnx --onnxrt --onnx-outputs '*' --save-inputs in.json"
        " --save-outputs layers.json"
    )
    assert given.code == 0
    check = (
        "polygraphy run polygraphy_debug.onnx --onnxrt --val-range [-1,1] --load-outputs"
        " layers.json --allow-missing-outputs"
    )
    done = reduce(polygraphy, check, "--mode linear --no-reduce-outputs --load-inputs in.json")
    assert "different failure: 'y' is not finite" in done.out
    done = reduce(
        polygraphy, f"{check} --load-inputs part.json",
        "--load-inputs in.json --save-inputs part.json",
    )  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert nodes_of("r.onnx") == ["n1"]


@pytest.mark.parametrize("names", ["same", "other"])
def test_saved_outputs_are_compared_by_name_and_not_by_position(
    polygraphy: Run, folder: Path, names: str
) -> None:
    """A part whose tensors were not saved under their names does not count, and one whose were may
    pass, whatever else was saved. Fed by the wrong model, the end alone gives another `y`.
    """
    ops = ["Neg", "Softplus", "Tanh", "Abs", "Exp", "Neg"]
    right, wrong = chain(*ops), chain(*ops)
    wrong.graph.node[3].op_type = "Sin"
    if names == "other":
        for node in right.graph.node:
            for side in (node.input, node.output):
                side[:] = [name.replace("t", "saved") for name in side]
    for name, model in (("right", right), ("m", wrong)):
        models.save(model, folder / f"{name}.onnx")
    given = polygraphy(
        "polygraphy run right.onnx --onnxrt --onnx-outputs '*' --save-inputs in.json"
        " --save-outputs layers.json"
    )
    assert given.code == 0
    done = reduce(
        polygraphy,
        "polygraphy run polygraphy_debug.onnx --onnxrt --load-inputs part.json"
        " --load-outputs layers.json",
        "--load-inputs in.json --save-inputs part.json",
    )
    assert done.code == 0, done.out + done.err
    assert nodes_of("r.onnx") == (["n3"] if names == "same" else ["n5"])


def sampled(folder: Path, *values: float) -> None:
    """Save inputs of m.onnx, one for each value."""
    from polygraphy.json import save_json

    save_json([{"x": np.full((2, 4), value, np.float32)} for value in values], "samples.json")


def test_of_several_samples_the_one_that_fails_is_used(polygraphy: Run, folder: Path) -> None:
    models.save(chain("Abs", "Neg", "Sqrt", "Exp"), folder / "m.onnx")
    models.save(chain("Neg", "Sqrt", "Abs", "Exp"), folder / "m.onnx")
    sampled(folder, -1, -2, 3, -4)
    check = "polygraphy run polygraphy_debug.onnx --onnxrt --validate --load-inputs part.json"
    options = "--load-inputs samples.json --save-inputs part.json"
    done = reduce(polygraphy, check, options)
    assert done.code == 0, done.out + done.err
    assert "Using sample 2 of the data" in done.out
    assert nodes_of("r.onnx") == ["n1"]
    sampled(folder, -1, -2)
    done = reduce(polygraphy, check, options)
    assert done.code == 4
    assert "with each of 2 samples" in done.err + done.out


def test_all_culprits_are_found_on_request(polygraphy: Run, folder: Path) -> None:
    ops = ["Relu", "Neg", "Abs", "Sqrt", "Relu", "Tanh", "Neg", "Exp", "Log", "Abs"]
    models.save(chain(*ops), folder / "m.onnx")
    check = shlex.quote("grep -q -e n3 -e n8 polygraphy_debug.onnx && exit 1; exit 0")
    done = reduce(polygraphy, f"sh -c {check}")
    assert done.code == 0
    assert nodes_of("r.onnx") in (["n3"], ["n8"])
    assert not Path("r_2.onnx").exists()
    done = reduce(polygraphy, f"sh -c {check}", "--all")
    assert done.code == 0, done.out + done.err
    assert {*nodes_of("r.onnx"), *nodes_of("r_2.onnx")} == {"n3", "n8"}
    assert not Path("r_3.onnx").exists()
    assert "The rest of the model (8 nodes) passes the check" in done.out
    assert done.out.count("Verified: ") == 2


def test_a_check_that_writes_much_leaves_its_beginning_and_its_end(
    polygraphy: Run, folder: Path
) -> None:
    models.save(chain(*MANY[:3]), folder / "m.onnx")
    (folder / "has.sh").write_text(
        "echo first; yes line | head -c 3000000; echo last\n" + HAS.format("n1")
    )
    assert reduce(polygraphy, "sh has.sh", "--mode linear").code == 0
    text = (folder / "polygraphy_debug" / "00.log").read_text()
    assert len(text) < 1_100_000
    assert text.startswith("first\n") and text.endswith("last\n")
    assert "[... 2000011 characters omitted ...]" in text
