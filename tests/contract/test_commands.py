"""What everything that runs commands promises, and what real processes do on top."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from polygraphy.adapters.fake import FunctionCommands
from polygraphy.adapters.processes.commands import ProcessCommands
from polygraphy.binding import resolve
from polygraphy.cli.backends.built_in import modules_for
from polygraphy.domain.errors import UsageError
from polygraphy.ports.running import Commands
from tests.support.program_facts import VERSION

PYTHON = [sys.executable, "-S", "-c"]


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessCommands]:
    commands = ProcessCommands()
    yield commands
    commands.close()


@pytest.fixture(params=["processes", "fake"])
def commands(request: pytest.FixtureRequest, processes: ProcessCommands) -> Commands:
    fake = FunctionCommands(lambda words: "text" if "print" in words[-1] else 3)
    return processes if request.param == "processes" else fake


def test_the_port_is_bound_to_processes() -> None:
    assert isinstance(resolve(Commands), ProcessCommands)


def test_exit_code_and_output(commands: Commands) -> None:
    done = commands.run([*PYTHON, "print('text')"])
    assert (done.code, done.output.strip(), done.timed_out) == (0, "text", False)
    done = commands.run([*PYTHON, "raise SystemExit(3)"])
    assert (done.code, done.output) == (3, "")


def test_a_command_is_stopped_in_time(commands: Commands) -> None:
    done = commands.run([*PYTHON, "import time; time.sleep(60)"], timeout=0)
    assert done.timed_out


def test_several_run_side_by_side_and_end_in_any_order(commands: Commands) -> None:
    started = [commands.start([*PYTHON, f"raise SystemExit({3})"]) for _ in range(3)]
    started[1].stop()
    assert [started[number].wait().code for number in (2, 0)] == [3, 3]


def test_a_folder_and_variables_are_those_of_one_command(
    processes: ProcessCommands, tmp_path: Path
) -> None:
    code = "import os; print(os.getcwd(), os.environ.get('OF_ONE_COMMAND'))"
    started = processes.start(
        [*PYTHON, code], folder=str(tmp_path), environment={"OF_ONE_COMMAND": "yes"}
    )
    assert started.wait().output == f"{tmp_path} yes\n"
    assert processes.run([*PYTHON, code]).output.endswith(" None\n")


@pytest.mark.slow
def test_commands_of_polygraphy_run_side_by_side_in_folders_of_their_own(
    processes: ProcessCommands, tmp_path: Path
) -> None:
    started = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "here.json").write_text("not JSON")
        words = ["polygraphy", "inspect", "data", "here.json" if number else "missing.json"]
        started.append(processes.start(words, folder=str(folder), in_new_process=number == 2))
    started.insert(0, started.pop())
    codes = [each.wait().code for each in started]
    assert codes == [3, 2, 3]
    stopped = processes.start(["polygraphy", "--version"])
    stopped.stop()
    assert processes.run(["polygraphy", "--version"]).code == 0


def test_both_streams_are_kept_whatever_they_hold(processes: ProcessCommands) -> None:
    code = "import os; os.write(1, b'out\\xff '); os.write(2, b'err')"
    assert processes.run([*PYTHON, code]).output == "out\ufffd err"


def test_standard_input_is_empty(processes: ProcessCommands) -> None:
    assert processes.run([*PYTHON, "print(repr(input()))"]).code == 1


def test_a_signal_is_a_negative_code(processes: ProcessCommands) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    assert processes.run([*PYTHON, code]).code == -9


@pytest.mark.parametrize("word", ["no-such-program-at-all", "/", ""])
def test_what_is_no_program_is_named(processes: ProcessCommands, word: str) -> None:
    with pytest.raises(UsageError, match="check command"):
        processes.run([word])


def test_what_a_command_started_is_stopped_with_it(
    processes: ProcessCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "both.sh"
    script.write_text("sleep 60 & echo $! > child; wait\n")
    (tmp_path / "child").touch()
    assert processes.run(["sh", str(script)], timeout=0.5).timed_out
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if _has_ended(child):
            return
        time.sleep(0.05)
    pytest.fail("the child goes on")


def _has_ended(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True


@pytest.mark.slow
def test_polygraphy_is_this_one(
    processes: ProcessCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = processes.run(["polygraphy", "--version"])
    assert (done.code, done.output) == (0, VERSION)
    assert processes.run(["polygraphy", "runn"]).code == 2
    done = processes.run(["polygraphy", "inspect", "data", "missing.json"])
    assert done.code == 2
    assert "missing.json" in done.output
    os.mkfifo("endless.json")  # Nothing is ever written to it.
    assert processes.run(["polygraphy", "inspect", "data", "endless.json"], timeout=0).timed_out
    assert processes.run(["polygraphy", "--version"]).code == 0


@pytest.mark.slow
def test_settings_reach_polygraphy_when_they_change(
    processes: ProcessCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["polygraphy", "inspect", "data", "missing.json"]
    assert processes.run(command).code == 2
    monkeypatch.setenv("POLYGRAPHY_EXIT_CODES", "legacy")
    assert processes.run(command).code == 1


@pytest.mark.slow
def test_ctrl_c_ends_a_command_of_polygraphy(tmp_path: Path) -> None:
    program = (
        "from polygraphy.adapters.processes.commands import ProcessCommands as C\n"
        "import sys\nsys.stderr.write('go\\n')\n"
        "C().run(['polygraphy', 'debug', 'repeat', '--until', '1', '--check', 'sleep', '60'])\n"
    )
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, cwd=tmp_path, text=True
    )
    assert process.stderr is not None
    while "go" not in process.stderr.readline():
        pass
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.stderr.read()
    assert process.wait() != 0
    assert time.monotonic() - started < 50


def test_backends_of_a_command_line_are_imported_before_it_runs() -> None:
    """The interpreter that waits has them; what waits knows no flag."""
    words = ["polygraphy", "run", "model.onnx", "--onnxrt", "--seed", "3"]
    modules = modules_for(words)
    assert {"numpy", "onnxruntime", "polygraphy.backend.onnxrt"} <= set(modules)
    assert "polygraphy.backend.trt" not in modules
    assert not [name for name in modules_for(["polygraphy"]) if "backend" in name]


def test_a_preload_function_is_asked_for_each_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "def needed(words):\n    open('asked.txt', 'a').write(' '.join(words) + '\\n')\n"
    (tmp_path / "preloading.py").write_text(source + "    return []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    commands = ProcessCommands("preloading:needed")
    try:
        assert commands.run(["polygraphy", "--version"]).code == 0
    finally:
        commands.close()
    assert "polygraphy --version" in (tmp_path / "asked.txt").read_text()
