"""`polygraphy run` as users run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.forked import ForkServer

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.mark.cold
def test_the_readme_snippet() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = readme.index("import numpy as np")
    namespace: dict[str, Any] = {}
    exec(readme[start : readme.index("```", start)], namespace)
    assert not namespace["verdict"]
    assert namespace["verdict"].mismatches.worst.index == (2,)


def test_two_frameworks_on_a_dynamic_model(dynamic_image_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run dynamic_identity.onnx --onnx --onnxrt")
    assert done.code == 0
    warning = "[W] Input tensor: X (dtype=float32, shape=(1, 2, 'height', 'width'))"
    assert f"{warning} | No shapes provided; Will use shape: [1, 2, 1, 1]." in done.out
    assert done.out.count("No shapes provided") == 1


def test_shapes_that_are_given_silence_the_warning(
    dynamic_image_dir: Path, polygraphy: Run
) -> None:
    done = polygraphy(
        "polygraphy run dynamic_identity.onnx --onnx --onnxrt --input-shapes X:[1,2,4,4]"
    )
    assert done.code == 0
    assert "[W]" not in done.out
    assert "{X [dtype=float32, shape=(1, 2, 4, 4)]}" in done.out


def test_default_data_are_what_they_always_were(identity_dir: Path, polygraphy: Run) -> None:
    from polygraphy.comparator import RunResults
    from polygraphy.json import load_json

    polygraphy(
        "polygraphy run identity.onnx --onnxrt --save-inputs i.json --save-outputs golden.json"
    )
    [feed] = load_json("i.json")
    expected = np.array([0.417021990, 0.720324516, 0.000114374816, 0.302332580], np.float32)
    np.testing.assert_array_equal(feed["x"].reshape(-1), expected)
    [(name, [outputs])] = RunResults.load("golden.json").items()
    assert name.startswith("onnxrt-runner-N0-")
    np.testing.assert_array_equal(outputs["y"], feed["x"])


@pytest.mark.parametrize("kind", ["files.json", "folders"])
def test_iterations_are_saved_and_loaded_again(
    identity_dir: Path, polygraphy: Run, kind: str
) -> None:
    inputs, outputs = f"in_{kind}", f"out_{kind}"
    saved = polygraphy(
        f"polygraphy run identity.onnx --onnxrt --onnx --iterations 3 --save-inputs {inputs} --save-outputs {outputs}"
    )
    assert saved.code == 0
    assert "PASSED  1 output matched in 3 iterations; " in saved.out
    loaded = polygraphy(
        f"polygraphy run -v identity.onnx --onnxrt --load-inputs {inputs} --load-outputs {outputs}"
    )
    assert loaded.code == 0
    assert loaded.out.count("Passed: 3/3 iterations") == 2


def test_other_seeds_and_ranges_give_other_data(identity_dir: Path, polygraphy: Run) -> None:
    from polygraphy.json import load_json

    for options, path in (("--seed 2", "a.json"), ("--val-range [5,6]", "b.json")):
        polygraphy(f"polygraphy run identity.onnx --onnxrt {options} --save-inputs {path}")
    [second], [shifted] = load_json("a.json"), load_json("b.json")
    np.testing.assert_array_equal(
        second["x"], np.random.RandomState(2).random_sample((1, 1, 2, 2)).astype(np.float32)
    )
    assert 5 <= shifted["x"].min() <= shifted["x"].max() <= 6


def test_saved_runs_are_compared_without_a_backend(identity_dir: Path, polygraphy: Run) -> None:
    for model, path in (("identity", "a.json"), ("identity_fp16", "b.json")):
        polygraphy(f"polygraphy run {model}.onnx --onnxrt --save-outputs {path}")
    assert polygraphy("polygraphy run --load-outputs a.json b.json").code == 1
    done = polygraphy("polygraphy run --load-outputs a.json b.json --rtol 1e-3")
    assert done.code == 0
    assert "Creating ONNX-Runtime" not in done.out


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--check-error-stat max --atol 0.00011 --rtol 0", 0),
        ("--check-error-stat max --atol 0.0001 --rtol 0", 1),
        ("--check-error-stat mean --atol 0.00006 --rtol 0", 0),
        ("--check-error-stat median --atol 0.00005 --rtol 0", 1),
        ("--check-error-stat median --atol 0.00006 --rtol 0", 0),
        ("--check-error-stat mean max --atol 0.00006 --rtol 0", 1),
        ("--check-error-stat quantile --error-quantile 0 --atol 1e-8 --rtol 0", 0),
        ("--check-error-stat y:max --atol y:0.00011 --rtol 0", 0),
    ],
)
def test_statistics_decide(identity_dir: Path, polygraphy: Run, options: str, code: int) -> None:
    polygraphy("polygraphy run identity.onnx --onnxrt --save-outputs o.json")
    done = polygraphy(f"polygraphy run identity_fp16.onnx --onnxrt --load-outputs o.json {options}")
    assert done.code == code


def test_the_log_is_quiet_when_asked(identity_dir: Path, polygraphy: Run) -> None:
    assert polygraphy("polygraphy run identity.onnx --onnxrt --onnx --silent").out == ""
    loud = polygraphy("polygraphy run identity.onnx --onnxrt --onnx -v --log-file run.log")
    assert "[V] " in loud.out
    assert (identity_dir / "run.log").read_text(encoding="utf-8") == loud.out


def test_log_lines_may_be_objects(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run identity.onnx --onnxrt --onnx --log-format json")
    messages = [json.loads(line) for line in done.lines]
    assert messages[0]["message"].startswith("RUNNING | Command: ")
    assert any(
        m["message"].strip() == "PASSED | All outputs matched | Outputs: ['y']" for m in messages
    )


def test_one_module_may_say_more(identity_dir: Path, polygraphy: Run) -> None:
    quiet = polygraphy("polygraphy run identity.onnx --onnx --verbosity WARNING backend/onnx:INFO")
    assert [line[:18] for line in quiet.lines] == ["[I] Loading model:"]


def test_warm_up_runs_are_not_counted(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy run identity.onnx --onnxrt --onnx -v --warm-up-runs 10 --iterations 20"
    )
    assert done.code == 0
    assert done.out.count("Completed 20 iteration(s)") == 2
    assert done.out.count("others: mean=") == 2
    [first, second] = [i for i, line in enumerate(done.lines) if "Activating" in line]
    assert first < next(i for i, line in enumerate(done.lines) if "Completed" in line) < second


def test_runners_may_have_processes_of_their_own(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy run identity.onnx --onnxrt --onnx --use-subprocess --iterations 3"
        " --save-inputs i.json --save-outputs o.json"
    )
    assert done.code == 0
    assert "PASSED  1 output matched in 3 iterations; " in done.out
    again = polygraphy(
        "polygraphy run identity.onnx -v --onnxrt --load-inputs i.json --load-outputs o.json"
    )
    assert again.code == 0


def test_the_others_survive_the_crash_of_a_runner(
    identity_dir: Path, fork_server: ForkServer
) -> None:
    program = """
import os, signal
from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

class Crashing(OnnxrtRunner):
    def infer_impl(self, feed_dict):
        os.kill(os.getpid(), signal.SIGKILL)

def main():
    load = SessionFromOnnx("identity.onnx")
    runners = [Crashing(load, name="crashing"), OnnxrtRunner(load, name="sound")]
    Comparator.run(runners, use_subprocess=True, save_outputs_path="o.json")

program.run(main)
"""
    done = fork_server.run(["-c", program], identity_dir)
    assert done.code == 3
    assert "crashing crashed: its process was ended by SIGKILL" in done.out
    assert "1 of 2 runners failed: crashing." in done.err

    from polygraphy.comparator import RunResults

    assert RunResults.load(str(identity_dir / "o.json")).keys() == ["sound"]


def test_a_runner_that_hangs_is_ended(identity_dir: Path, polygraphy: Run) -> None:
    (identity_dir / "slow.py").write_text(
        "import time\nimport numpy as np\n\n\n"
        "def load_data():\n"
        "    yield {'x': np.ones((1, 1, 2, 2), np.float32)}\n"
        "    time.sleep(600)\n"
    )
    done = polygraphy(
        "polygraphy run identity.onnx --onnxrt --use-subprocess --subprocess-timeout 1.5"
        " --data-loader-script slow.py"
    )
    assert (done.code, "took longer than 1.5 s and was stopped" in done.out) == (3, True)
    done = polygraphy("polygraphy run identity.onnx --onnxrt --subprocess-timeout 1.5")
    assert (done.code, "--subprocess-timeout requires --use-subprocess" in done.err) == (2, True)


def test_a_saved_program_does_what_the_command_does(
    identity_dir: Path, polygraphy: Run, fork_server: ForkServer
) -> None:
    polygraphy("polygraphy run identity.onnx --onnxrt --onnx --gen-script saved.py")
    done = fork_server.run(["saved.py"], identity_dir)
    assert done.code == 0
    assert "PASSED | All outputs matched | Outputs: ['y']" in done.out


def test_a_silent_run_still_writes_its_log_file(identity_dir: Path, polygraphy: Run) -> None:
    """The file was empty."""
    command = "polygraphy run identity.onnx --onnxrt --onnx --silent --log-file log.txt"
    done = polygraphy(command)
    assert (done.code, done.out) == (0, "")
    assert "[I] PASSED | Runtime: " in Path("log.txt").read_text()
    assert polygraphy(f"{command} --atol -1").code == 2
    assert polygraphy(f"{command} --iterations 2 -v").out == ""
    assert "[V] " in Path("log.txt").read_text()


@pytest.mark.parametrize(
    "options", ["--onnxrt", "--onnxrt --onnx", "--onnxrt --onnx --mark-all",
                "--onnxrt --onnx --sequential-runners --warm-up 2", "--onnxrt --validate",
                "--onnxrt --onnx --use-subprocess"]
)  # fmt: skip
def test_models_are_made_and_saved_where_no_iteration_is_asked_for(
    identity_dir: Path, polygraphy: Run, options: str
) -> None:
    done = polygraphy(
        f"polygraphy run identity.onnx {options} --iterations 0"
        + (" --save-onnx made.onnx" if options == "--onnxrt" else "")
    )
    assert done.code == 0
    assert "note     Nothing was run: iterations is 0." in done.lines
    assert re.match(r"PASSED  (\d runners?; n|N)othing was compared\.", done.lines[-1])
    assert "Completed" not in done.out and "Average" not in done.out
    assert Path("made.onnx").exists() == (options == "--onnxrt")


def test_other_commands_need_data(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy diagnose identity.onnx --onnxrt --onnx --iterations 0")
    assert done.code == 2 and "There is no input data" in done.err
    done = polygraphy("polygraphy run identity.onnx --onnxrt --iterations -1")
    assert done.code == 2


@pytest.mark.cold
def test_a_saved_program_answers_its_arguments(identity_dir: Path, polygraphy: Run) -> None:
    assert polygraphy("polygraphy run identity.onnx --onnxrt --gen-script saved.py").code == 0

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "saved.py", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    helped = run("-h")
    assert helped.returncode == 0
    assert "polygraphy run identity.onnx --onnxrt" in helped.stdout
    assert "PASSED" not in helped.stdout
    refused = run("--nonsense")
    assert refused.returncode == 2
    assert "saved.py accepts no arguments: --nonsense." in refused.stdout + refused.stderr
    text = Path("saved.py").read_text(encoding="utf-8")
    Path("saved.py").write_text(
        text.replace(
            "from polygraphy import program", "import sys\n\nfrom polygraphy import program"
        )
    )
    assert run("--my-own").returncode == 0  # Who edits it may read arguments.
