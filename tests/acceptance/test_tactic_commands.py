"""Commands that look into tactic replays, where there is no TensorRT."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import models, replays

Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    good = [{"conv": replays.algorithm(1)}, {"conv": replays.algorithm(2)}]
    replays.write_directory(tmp_path / "replays", good=good, bad=[])
    (tmp_path / "replays" / "bad").mkdir(exist_ok=True)
    return tmp_path


@pytest.mark.cold
def test_what_is_not_known_is_said_as_in_the_transcript(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect diff-tactics --dir replays")
    assert done.code == 0
    assert done.lines[-3:] == [
        "[I] Loaded 2 good tactic replays.",
        "[I] Loaded 0 bad tactic replays.",
        "[I] Could not determine potentially bad tactics. Try generating more tactic replay files?",
    ]


def test_bad_tactics_are_listed(folder: Path, polygraphy: Run) -> None:
    replays.write(folder / "replays" / "bad" / "0.json", {"conv": replays.algorithm(3)})
    done = polygraphy("polygraphy inspect diff-tactics --dir replays")
    assert done.lines[-3:-1] == ["[I] Found potentially bad tactics:", "[I] Layer: conv"]
    assert "Algorithms: ['(Implementation: 2147483661, Tactic: 3) | Inputs: (" in done.lines[-1]


def test_a_damaged_replay_among_others_is_a_warning(folder: Path, polygraphy: Run) -> None:
    replay = folder / "replays" / "bad" / "0.json"
    replays.write(replay, {"conv": replays.algorithm(3)})
    replay.write_bytes(replay.read_bytes()[:300])
    Path("replays/bad/other.json").write_text('{"other": 1}')
    done = polygraphy("polygraphy inspect diff-tactics --dir replays")
    [line] = [line for line in done.lines if line.startswith("[W]")]
    assert "Skipped a damaged tactic replay. Could not load" in line and "bad/0.json" in line


def test_a_replay_is_shown(folder: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy inspect tactics replays/good/0.json")
    info = "(TensorInfo(DataType.FLOAT, (4, 4, 2, 1), -1, 1),)"
    assert (done.code, done.lines) == (
        0,
        [
            "[I] Loading tactic replay file from replays/good/0.json",
            "[I] Layer: conv",
            f"        Algorithm: (Implementation: 2147483661, Tactic: 1) | Inputs: {info} | Outputs: {info}",
        ],
    )


def test_two_replays_are_compared(folder: Path, polygraphy: Run) -> None:
    first, second = "replays/good/0.json", "replays/good/1.json"
    done = polygraphy(f"polygraphy debug diff-tactics {first} {second}")
    assert done.code == 0
    assert f"[I] 1 layer differs between {first} and {second}:" in done.lines
    assert "Tactic: 1)" in done.lines[-2] and "Tactic: 2)" in done.lines[-1]
    done = polygraphy(f"polygraphy inspect diff-tactics {first} {first}")
    assert done.lines[-1] == f"[I] {first} and {first} contain the same tactics."


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("inspect tactics missing.json", 2, "does not exist"),
        ("inspect tactics replays/nothing.json", 2, "does not exist"),
        ("inspect diff-tactics a.json", 2, "two replays can be compared, not 1"),
        ("inspect diff-tactics a b --dir c", 2, "--dir: cannot be combined with two replays"),
        (
            "inspect diff-tactics --dir a --good b --bad c",
            2,
            "has no effect, because --good and --bad are both set",
        ),
        ("inspect diff-tactics", 3, "contains no folder named good or bad"),
        ("template trt-network", 2, "-o PATH"),
        ("template trt-config m.engine -o x.py", 2, "type engine"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, polygraphy: Run, words: str, code: int, message: str
) -> None:
    done = polygraphy(f"polygraphy {words}")
    assert done.code == code and message in done.err + done.out
    assert not (folder / "x.py").exists()


def test_templates_are_written_and_not_run(folder: Path, polygraphy: Run) -> None:
    models.save(models.mlp(), folder / "m.onnx")
    for words in (
        "trt-network -o network.py",
        "trt-network m.onnx --gen-script from_model.py",
        "trt-config -o config.py --fp16",
    ):
        assert polygraphy(f"polygraphy template {words}").code == 0
    defined = {
        path.name: {
            node.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        for path in folder.glob("*.py")
    }
    assert defined == {
        "network.py": {"load_network", "main"},
        "from_model.py": {"load_network", "main"},
        "config.py": {"load_config", "main"},
    }


def test_templates_run_with_tensorrt_rtx(folder: Path, polygraphy: Run) -> None:
    import subprocess
    import sys

    pytest.importorskip("tensorrt_rtx")
    models.save(models.mlp(), folder / "m.onnx")
    shapes = "--trt-min-shapes x:[1,8] --trt-opt-shapes x:[2,8] --trt-max-shapes x:[4,8]"
    env = {"POLYGRAPHY_USE_TENSORRT_RTX": "1"}
    polygraphy("polygraphy template trt-network m.onnx --trt-outputs h -o net.py")
    polygraphy(f"polygraphy template trt-config m.onnx {shapes} -o config.py")
    done = polygraphy("polygraphy inspect model net.py", env=env)
    assert done.code == 0 and "{h [dtype=float32, shape=(-1, 16)]}" in done.out
    import os

    ran = subprocess.run(
        [sys.executable, "config.py"], capture_output=True, text=True, env={**os.environ, **env},
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "TensorRT accepts this configuration." in ran.stdout


def test_support_decides_the_exit_code(folder: Path, polygraphy: Run) -> None:
    pytest.importorskip("tensorrt_rtx")
    env = {"POLYGRAPHY_USE_TENSORRT_RTX": "1"}
    models.save(models.mlp(), folder / "m.onnx")
    models.save(models.custom_op(), folder / "c.onnx")
    assert polygraphy("polygraphy inspect capability m.onnx", env=env).code == 0
    assert not (folder / "polygraphy_capability_dumps").exists()
    done = polygraphy("polygraphy inspect capability c.onnx -o parts", env=env)
    assert (done.code, "Plugin not found" in done.out) == (1, True)
    assert (folder / "parts" / "results.txt").read_text().splitlines()[-1] in done.out
