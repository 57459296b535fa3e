"""Mistakes of the user: one clear line, the right exit code, nothing harmed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

Run = Callable[..., Any]


def critical(done: Any) -> str:
    """Return the one critical line of a run."""
    [line] = [line for line in done.err.splitlines() if line.startswith("[!] ")]
    return str(line)


@pytest.mark.parametrize("runner", ["--onnxrt", "--onnx"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Model model.onnx does not exist."),
        (b"", "Model model.onnx is empty."),
        (
            b"no model at all",
            "ONNX model is invalid: model.onnx is truncated, damaged, or not an ONNX",
        ),
    ],
)
def test_a_model_that_is_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    polygraphy: Run,
    runner: str,
    content: bytes | None,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "model.onnx").write_bytes(content)
    done = polygraphy(f"polygraphy run model.onnx {runner}")
    assert done.code == (2 if content is None else 3)
    assert message in critical(done)


def test_a_graph_that_is_wrong_is_not_called_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    from tests.support import models

    monkeypatch.chdir(tmp_path)
    model = models.identity()
    model.graph.node[0].domain = "nobody.knows"
    models.save(model, tmp_path / "model.onnx")
    done = polygraphy("polygraphy run model.onnx --onnxrt")
    assert done.code == 3
    assert critical(done).startswith("[!] ONNX model is invalid: model.onnx: ")
    assert "nobody.knows" in critical(done)
    assert critical(done).endswith("`polygraphy check lint` lists the problems of the model.")


@pytest.mark.parametrize(
    "command",
    [
        "run {}.onnx --onnxrt",
        "inspect model {}.onnx",
        "inspect data {}.json",
        "convert {}.onnx -o other.onnx",
        "surgeon sanitize {}.onnx -o other.onnx",
    ],
)
def test_a_name_that_no_file_can_have(polygraphy: Run, command: str) -> None:
    done = polygraphy("polygraphy " + command.format("x" * 300))
    assert done.code == 3
    assert critical(done).startswith("[!] File name too long: 'xxx")
    assert critical(done).endswith("'. Choose a different path.")


def test_a_folder_without_a_model(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run replays --onnxrt")
    assert done.code == 3
    assert critical(done) == "[!] Model replays is a folder. Use the path of the file itself."


def test_what_is_no_model_is_not_quoted_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text(json.dumps({"array": "x" * 10_000}), encoding="utf-8")
    done = polygraphy("polygraphy surgeon sanitize data.json -o o.onnx")
    assert done.code == 3
    assert critical(done).startswith("[!] ONNX model is invalid: data.json is truncated")
    assert len(critical(done)) < 500


@pytest.mark.parametrize(
    "command", ["run --onnxrt", "run --onnx", "inspect model --show=weights", "inspect sparsity"]
)
def test_a_model_without_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run, command: str
) -> None:
    from polygraphy.surgeon import strip_weights
    from tests.support import models

    monkeypatch.chdir(tmp_path)
    models.save(strip_weights(models.mlp()), tmp_path / "stripped.onnx")
    done = polygraphy(f"polygraphy {command} stripped.onnx")
    assert done.code == 3
    assert "`surgeon weight-reconstruct`" in critical(done)


def test_weights_in_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    from polygraphy.backend.onnx import save_onnx
    from tests.support import models

    monkeypatch.chdir(tmp_path)
    save_onnx(models.mlp(), "model.onnx", "weights.bin", size_threshold=0)
    Path("weights.bin").unlink()
    done = polygraphy("polygraphy run model.onnx --onnxrt")
    assert done.code == 3
    assert "--external-data-dir" in critical(done)


@pytest.mark.parametrize("runner", ["--onnxrt", "--onnx"])
def test_a_truncated_model(identity_dir: Path, polygraphy: Run, runner: str) -> None:
    whole = (identity_dir / "identity.onnx").read_bytes()
    for length in range(1, len(whole), 7):
        (identity_dir / "cut.onnx").write_bytes(whole[:length])
    (identity_dir / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    done = polygraphy(f"polygraphy run cut.onnx {runner}")
    assert done.code == 3
    assert "cut.onnx" in critical(done)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            "--input-shapes x:[1,2]",
            2,
            "input 'x' has shape (1, 1, 2, 2) in the model, which does not match (1, 2)",
        ),
        ("--input-shapes z:[1,1,2,2]", 2, "Input 'z' does not exist. Available: 'x'."),
        ("--val-range z:[0,1]", 2, "Input 'z' does not exist. Available: 'x'."),
        ("--onnx --rtol z:1", 2, "Output 'z' does not exist. Available: 'y'."),
        ("--providers tpu", 2, "Execution provider 'tpu' does not exist. Available: "),
        ("--load-inputs missing.json", 2, "missing.json does not exist"),
        ("--load-outputs missing.json", 2, "missing.json does not exist"),
        ("--load-inputs replay.json", 3, "replay.json"),
        ("--load-outputs replay.json", 3, "replay.json"),
        ("--load-inputs identity.onnx", 3, "identity.onnx"),
        ("--save-outputs identity.onnx/x.json", 3, "identity.onnx"),
        ("--save-inputs replays", 3, "replays"),
    ],
)
def test_options_that_do_not_fit(
    identity_dir: Path, polygraphy: Run, options: str, code: int, message: str
) -> None:
    before = {path: path.read_bytes() for path in identity_dir.rglob("*") if path.is_file()}
    done = polygraphy(f"polygraphy run identity.onnx --onnxrt {options}")
    assert message in critical(done)
    assert done.code == code
    assert done.lines[-1].startswith(f"FAILED  Exit code {code}.")
    assert {path: path.read_bytes() for path in identity_dir.rglob("*") if path.is_file()} == before


def test_legacy_exit_codes(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy run missing.onnx --onnxrt", env={"POLYGRAPHY_EXIT_CODES": "legacy"}
    )
    assert done.code == 1


def test_outputs_that_only_one_side_has_fail(identity_dir: Path, polygraphy: Run) -> None:
    saved = polygraphy(
        "polygraphy run identity.onnx --onnxrt --save-outputs one.json --iterations 2"
    )
    assert saved.code == 0
    done = polygraphy("polygraphy run identity.onnx --onnxrt --load-outputs one.json")
    assert done.code == 1
    assert "Iteration 1 exists only in" in done.out


def test_nan_fails_whatever_the_tolerance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    from tests.support import models

    monkeypatch.chdir(tmp_path)
    models.save(models.unstable(), tmp_path / "unstable.onnx")
    done = polygraphy(
        "polygraphy run unstable.onnx --onnxrt --onnx --val-range [-1,-0.5] --rtol 1e9 --atol 1e9 --validate --log-format legacy"
    )
    assert done.code == 1
    assert "NaN Detected" in done.out
    assert "No tolerance can pass" in done.out


def interrupted(folder: Path, how: signal.Signals) -> tuple[int, str]:
    """Send a signal to a run whose data loader never ends; return its exit code and its output."""
    program = folder / "endless.py"
    program.write_text(
        "import itertools, numpy as np\n"
        "from polygraphy import program\n"
        "from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx\n"
        "from polygraphy.comparator import Comparator\n"
        "def main():\n"
        "    data = ({'x': np.ones((1, 1, 2, 2), np.float32)} for _ in itertools.count())\n"
        "    runner = OnnxrtRunner(SessionFromOnnx('identity.onnx'))\n"
        "    for i, _ in enumerate(Comparator.run([runner], data, streaming=True, save_outputs_path='out.json')):\n"
        "        if i == 10: print('STARTED', flush=True)\n"
        "program.run(main)\n"
    )
    (folder / "out.json").write_text("precious")
    process = subprocess.Popen(
        [sys.executable, str(program)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    seen = ""
    while "STARTED" not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    time.sleep(0.05)
    process.send_signal(how)
    rest, _ = process.communicate(timeout=20)
    return process.returncode, seen + rest


HEAD = '<ir_version: 8, opset_import: ["": {}]> g (float[2] x) => (float[2] y) '


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (HEAD.format(17) + "{ }", "run m.onnx --onnxrt --onnxrt --mark-all"),
        (HEAD.format(2**31) + "{ y = Relu(x) }", "check lint m.onnx"),
        (HEAD.format(17) + "{ r = Range(, x, x)  y = Relu(x) }", "check lint m.onnx"),
        (HEAD.format(17) + "{ a = Relu(x)  z = Neg(a)  y = Abs(a) }", "diagnose m.onnx --onnxrt --onnx"),
        (HEAD.format(17) + "{ a = Relu(x)  z = Neg(a)  y = Abs(a) }", "diagnose m.onnx --fp-to-fp16"),
    ],
)  # fmt: skip
def test_a_model_that_makes_no_sense_is_reported_in_a_line(
    text: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polygraphy: Run
) -> None:
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        if list(node.output) == ["z"]:  # It makes nothing.
            node.output[0] = ""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    done = polygraphy(f"polygraphy {command}")
    assert done.code in (0, 1, 2, 3)
    assert "shows the traceback" not in done.out + done.err


def test_an_interruption_that_becomes_another_error_is_one(
    identity_dir: Path, polygraphy: Run
) -> None:
    # As extension modules do that are interrupted while they are imported.
    (identity_dir / "d.py").write_text(
        "import os, signal\n"
        "def load_data():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        while True: pass\n"
        "    except KeyboardInterrupt:\n"
        "        raise ImportError('initialization failed') from None\n"
    )
    done = polygraphy("polygraphy run identity.onnx --onnxrt --data-loader-script d.py")
    assert done.code == 130
    assert "INTERRUPTED" in done.out and "initialization failed" not in done.out


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_harms_nothing(identity_dir: Path) -> None:
    before = set(os.listdir(identity_dir))
    code, output = interrupted(identity_dir, signal.SIGINT)
    assert code == 130
    assert "INTERRUPTED" in output
    assert "Traceback" not in output
    assert (identity_dir / "out.json").read_text() == "precious"
    assert set(os.listdir(identity_dir)) - before == {"endless.py", "out.json"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_leaves_no_partial_file(identity_dir: Path, number: signal.Signals) -> None:
    before = set(os.listdir(identity_dir))
    code, output = interrupted(identity_dir, number)
    assert code == 128 + number
    assert f"INTERRUPTED | The program was ended by {number.name}." in output
    assert "Traceback" not in output
    assert set(os.listdir(identity_dir)) - before == {"endless.py", "out.json"}


@pytest.mark.slow
def test_a_full_disk_harms_nothing(identity_dir: Path, polygraphy: Run) -> None:
    (identity_dir / "out.json").write_text("precious")
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "sys.argv = ['polygraphy', 'run', 'identity.onnx', '--onnxrt', '--save-outputs', 'out.json'];"
        "from polygraphy.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "out.json" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert (identity_dir / "out.json").read_text() == "precious"


def test_a_log_file_that_cannot_be_is_one_line(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run identity.onnx --onnxrt --log-file .")
    assert done.code == 3
    assert "log file" in critical(done)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [["-m", "polygraphy", "doctor"], ["saved.py"]])
def test_an_output_that_is_full_is_one_line(identity_dir: Path, words: list[str]) -> None:
    Path("saved.py").write_text("from polygraphy import program\nprogram.run(lambda: True)\n")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == ("[!] Could not write: No space left on device. Free some disk space.\n")


def test_what_failed_is_not_summed_up_as_equal(identity_dir: Path, polygraphy: Run) -> None:
    polygraphy("polygraphy run identity.onnx --onnxrt --save-outputs one.json --iterations 2")
    done = polygraphy("polygraphy run identity.onnx --onnxrt --load-outputs one.json")
    assert done.code == 1
    assert "every element is equal" not in done.out


def test_averages_that_were_saved_can_be_judged_anew(identity_dir: Path, polygraphy: Run) -> None:
    polygraphy(
        "polygraphy run identity.onnx --onnxrt --onnx --check-average --check-error-stat max"
        " --save-accuracy-results verdicts.json"
    )
    assert polygraphy("polygraphy check accuracy verdicts.json").code == 0


def test_an_interrupted_import_is_an_interrupt(identity_dir: Path) -> None:
    (identity_dir / "onnxruntime.py").write_text(
        "try:\n    raise KeyboardInterrupt\n"
        "except KeyboardInterrupt as e:\n    raise ImportError('initialization failed') from e\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "polygraphy", "run", "identity.onnx", "--onnxrt"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(identity_dir)},
    )
    assert done.returncode == 130


def test_the_answer_says_that_the_cpu_ran_instead_of_a_provider(
    identity_dir: Path, polygraphy: Run
) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build has it")
    command = "polygraphy run identity.onnx --onnxrt --providers cuda cpu --format json"
    document = json.loads(polygraphy(command).out)
    assert document["exit_code"] == 0
    assert any("built without CUDAExecutionProvider" in note for note in document["notes"])
