"""What everything that runs the jobs of a sweep promises, in processes of this machine and through
Ray; and what the launcher does with command lines of this package.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polygraphy.adapters.fake import ScriptedEngine
from polygraphy.adapters.processes.launching import launch
from polygraphy.adapters.processes.pool import LocalPool
from polygraphy.adapters.ray.engine import RayEngine
from polygraphy.binding import resolve
from polygraphy.domain.errors import FileError
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.domain.sweep.outcome import Row, row_of
from polygraphy.ports.sweeping import SweepEngine

LIMITS = Limits(jobs=2, timeout=30)
ROW = Row("m a", "m", "a", "k")


def job(folder: Path, name: str, program: str, **facts: Any) -> Job:
    return Job(
        name, (sys.executable, "-S", "-c", program), str(folder / name), str(folder), **facts
    )


def records_of(
    engine: SweepEngine, jobs: list[Job], limits: Limits = LIMITS
) -> dict[str, Mapping[str, Any]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    engine.run(jobs, limits, lambda job, record: found.append((job.key, record)))
    assert len(found) == len(dict(found))
    return dict(found)


def _answer(job: Job) -> Mapping[str, Any]:
    return {"code": int(job.command[-1].rpartition("(")[2].rstrip(")") or 0)}


@contextmanager
def _cluster() -> Iterator[SweepEngine]:
    """Yield an engine with a cluster of two processors and two pretended GPUs."""
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(
        "local",
        num_cpus=2,
        num_gpus=2,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path.cwd())}},
        log_to_driver=False,
    )
    yield RayEngine()
    ray.shutdown()


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of an engine that starts processes."""
    if request.param == "ray":
        pytest.importorskip("ray")
    return str(request.param)


@pytest.fixture(scope="module")
def engine(name: str) -> Iterator[SweepEngine]:
    """Return that engine."""
    if name == "local":
        yield LocalPool()
    else:
        with _cluster() as made:
            yield made


def test_the_port_is_bound() -> None:
    assert isinstance(resolve(SweepEngine, "local"), LocalPool)
    assert isinstance(resolve(SweepEngine, "ray"), RayEngine)


def ends_once_with_its_exit_code(engine: SweepEngine, folder: Path) -> None:
    jobs = [job(folder, str(code), f"raise SystemExit({code})") for code in range(5)]
    found = records_of(engine, [*jobs[1:], jobs[0]])
    assert {key: record["code"] for key, record in found.items()} == {str(n): n for n in range(5)}
    assert all(record["key"] == key and record["ended"] == "exit" for key, record in found.items())
    assert records_of(engine, []) == {}


def test_every_job_ends_once_with_its_exit_code(engine: SweepEngine, tmp_path: Path) -> None:
    ends_once_with_its_exit_code(engine, tmp_path)


def test_every_job_of_the_fake_ends_once_with_its_exit_code(tmp_path: Path) -> None:
    ends_once_with_its_exit_code(ScriptedEngine(_answer), tmp_path)


def test_what_was_run_is_not_run_again(engine: SweepEngine, tmp_path: Path) -> None:
    one = job(tmp_path, "one", "open('runs', 'a').write('x')")
    first = records_of(engine, [one])
    assert json.loads(Path(one.result).read_text()) == first["one"]
    assert records_of(engine, [one]) == first
    assert (tmp_path / "runs").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "runs"]


def test_a_job_that_hangs_is_stopped_with_what_it_started(
    engine: SweepEngine, name: str, tmp_path: Path
) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid)); time.sleep(60)"
    )
    found = records_of(
        engine, [job(tmp_path, "one", program)], Limits(1, timeout={"local": 2, "ray": 8}[name])
    )
    assert row_of(ROW, [found["one"]]).state == "timeout"
    assert is_over(int((tmp_path / "child").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_job_that_takes_too_much_memory_is_stopped(engine: SweepEngine, tmp_path: Path) -> None:
    program = "import time; held = b'x' * (300 << 20); time.sleep(60)"
    limits = Limits(1, timeout=30, memory=100 << 20)
    found = records_of(engine, [job(tmp_path, "one", program)], limits)
    assert row_of(ROW, [found["one"]]).state == "memory"
    assert found["one"]["memory"] > 100 << 20


def test_a_job_that_crashes_has_a_record(engine: SweepEngine, tmp_path: Path) -> None:
    crash = "import os, sys; print('before', flush=True); os.kill(os.getpid(), 11)"
    found = records_of(engine, [job(tmp_path, "one", crash), job(tmp_path, "two", "pass")])
    row = row_of(ROW, [found["one"]])
    assert (row.state, row.summary) == (
        "crashed",
        "Stopped by signal 11. Last line: before",
    )
    assert found["two"]["code"] == 0


def test_exclusive_jobs_run_alone(engine: SweepEngine, tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "beside = [n for n in os.listdir('.') if n.endswith('.runs')]\n"
        "open('{0}.runs', 'w').close(); time.sleep(.3); os.unlink('{0}.runs')\n"
        "raise SystemExit(len(beside) if '{0}'[0] == 'x' else 0)"
    )
    names = ["x1", "a", "x2", "b", "c"]
    jobs = [
        job(tmp_path, name, program.format(name), exclusive=name.startswith("x")) for name in names
    ]
    found = records_of(engine, jobs, Limits(3, timeout=30))
    assert {record["code"] for record in found.values()} == {0}
    assert [found[name]["shared"] for name in names] == [False, True, False, True, True]


def test_jobs_spread_over_gpus_and_those_without_see_none(
    engine: SweepEngine, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs are pretended: no library looks at them."""
    there = ["0", "1"]
    if name == "local":
        there = ["3", "5"]
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(there))
    program = (
        "import os, time; open({0!r}, 'w').write(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "while {1} and len([n for n in os.listdir('.') if n.endswith('.gpu')]) < 2: time.sleep(.05)"
    )  # Neither of the first two ends before both have begun.
    names = [f"{n}.gpu" if n < 4 else f"{n}.txt" for n in range(6)]
    jobs = [job(tmp_path, str(n), program.format(names[n], n < 2), gpu=n < 4) for n in range(6)]
    found = records_of(engine, jobs, Limits(None, timeout=30))
    seen = [(tmp_path / each).read_text() for each in names]
    assert seen == [found[str(n)]["device"] for n in range(6)]
    assert (sorted(seen[:2]), set(seen[:4]), seen[4:]) == (there, set(there), ["", ""])


def test_a_folder_that_cannot_be_written_is_one_error(engine: SweepEngine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file"):
        records_of(engine, [job(tmp_path / "file", "one", "pass")])


def is_over(pid: int) -> bool:
    """Return whether a process ends soon, or is a zombie that its parent has not waited for."""
    for _ in range(600):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


_ENGINE = """
import sys
from polygraphy.adapters.processes.pool import LocalPool
from polygraphy.adapters.ray.engine import RayEngine
from polygraphy.domain.sweep.cells import Job, Limits
words = (sys.executable, "-S", "-c",
         "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")
{engine}().run([Job("one", words, "{folder}/one", "{folder}")], Limits(1), print)
"""


@contextmanager
def another(name: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the process of another engine, of the same cluster where there is one, and that of its
    job, which does not end by itself.
    """
    source = _ENGINE.format(engine={"local": "LocalPool", "ray": "RayEngine"}[name], folder=folder)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    if name == "ray":
        import ray

        variables["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.DEVNULL) as started:
        try:
            yield started, wait_for(folder / "pid")
        finally:
            started.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG")
def test_a_process_ends_with_an_engine_that_is_killed(
    engine: SweepEngine, name: str, tmp_path: Path
) -> None:
    with another(name, tmp_path) as (started, pid):
        one = Job("one", (), str(tmp_path / "one"))
        assert launch(one, LIMITS, None, shared=False) is None  # Its lock is held.
        started.send_signal(signal.SIGKILL)
    assert is_over(pid)
    again = job(tmp_path, "one", "pass")
    assert records_of(engine, [again])["one"]["code"] == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.usefixtures("engine")
def test_ctrl_c_ends_processes_and_leaves_no_record(name: str, tmp_path: Path) -> None:
    with another(name, tmp_path) as (started, pid):
        started.send_signal(signal.SIGINT)
        assert started.wait(60) != 0
    assert is_over(pid)
    assert {path.name for path in tmp_path.iterdir()} - {"one.lock"} == {"pid"}


def test_a_job_that_is_killed_just_before_its_engine_leaves_no_record(tmp_path: Path) -> None:
    """As where a scheduler kills all of them: it has not crashed."""
    with another("local", tmp_path) as (started, pid):
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
        started.kill()
    assert not (tmp_path / "one.json").exists()


@pytest.mark.slow
def test_a_job_that_another_engine_runs_is_waited_for(
    engine: SweepEngine, name: str, tmp_path: Path
) -> None:
    with another(name, tmp_path) as (started, pid):
        threading.Timer(2, started.kill).start()
        program = f"import os; raise SystemExit(os.path.exists('/proc/{pid}') and is_running())"
        check = (
            "def is_running():\n"
            f"    return open('/proc/{pid}/stat').read().rpartition(')')[2].split()[0] != 'Z'\n"
        )
        found = records_of(engine, [job(tmp_path, "one", check + program)])
    assert found["one"]["code"] == 0


def wait_for(path: Path) -> int:
    for _ in range(2400):
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(path)


def test_a_record_that_cannot_be_written_is_one_error(engine: SweepEngine, tmp_path: Path) -> None:
    """As on a disk that is full: others that run are ended, and what was written stays."""
    cells = tmp_path / "cells"
    cells.mkdir()
    program = f"import os; os.chdir('/'); os.unlink({str(cells / 'one.lock')!r}); os.rmdir({str(cells)!r}); open({str(cells)!r}, 'w')"
    beside = job(tmp_path, "beside", "import time; time.sleep(60)")
    with pytest.raises(FileError, match="cells"):
        records_of(engine, [beside, job(tmp_path / "cells", "one", program)])
    assert not Path(beside.result).exists()


PRELOAD = "preloading:needed"


def command_of_ours(folder: Path, name: str, environment: Mapping[str, str]) -> Job:
    """Return a job that is a command line of this package; its preloading function acts."""
    words = (sys.executable, "-m", "polygraphy", "inspect", "data", f"{name}.json")
    variables = {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **environment}
    return Job(name, words, str(folder / "cells" / name), str(folder), variables)


@pytest.mark.slow
def test_command_lines_of_this_package_run_in_forks_of_one_interpreter(tmp_path: Path) -> None:
    seen = tmp_path / "server"
    source = (
        f"import os\ndef needed(words):\n    open({str(seen)!r}, 'a').write(f'{{os.getpid()}} ')\n"
    )
    (tmp_path / "preloading.py").write_text(source + "    return []\n")
    for name in "ab":
        job = command_of_ours(tmp_path, name, {})
        launched = launch(job, LIMITS, None, shared=False, preload=PRELOAD)
        assert launched is not None
        assert launch(job, LIMITS, None, shared=False, preload=PRELOAD) is None  # The lock is held.
        while (record := launched.poll(0.1)) is None:
            pass
        assert (record["code"], record["ended"]) == (2, "exit")
        assert f"{name}.json" in record["said"]
        assert record["cpu"] > 0 < record["memory"]
    assert len(set(seen.read_text().split())) == 1
    assert sorted(path.name for path in (tmp_path / "cells").iterdir()) == ["a.json", "b.json"]


@pytest.mark.parametrize("act", ["os.kill(os.getpid(), 11)", "time.sleep(60)"])
@pytest.mark.slow
def test_an_interpreter_that_cannot_wait_harms_no_cell(tmp_path: Path, act: str) -> None:
    """As where an import ends the process, or never ends: the cell runs alone, or is a row."""
    source = f"import os, time\ndef needed(words):\n    {act}\n"
    (tmp_path / "preloading.py").write_text(source)
    job = command_of_ours(tmp_path, "a", {})
    limits = Limits(1, timeout=1 if "sleep" in act else 60)
    launched = launch(job, limits, None, shared=False, preload=PRELOAD)
    assert launched is not None
    while (record := launched.poll(0.1)) is None:
        pass
    if "sleep" in act:
        assert row_of(ROW, [record]).state == "timeout"
    else:
        assert (record["code"], record["ended"]) == (2, "exit")


@pytest.mark.slow
def test_a_fork_that_hangs_is_stopped_and_others_go_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")  # Nothing is ever written to it.
    slow = launch(command_of_ours(tmp_path, "a", {}), Limits(2, timeout=3), None, shared=True)
    next_one = launch(command_of_ours(tmp_path, "b", {}), LIMITS, None, shared=True)
    assert slow is not None
    assert next_one is not None
    while (record := slow.poll(0.1)) is None:
        pass
    assert row_of(ROW, [record]).state == "timeout"
    while (record := next_one.poll(0.1)) is None:
        pass
    assert record["code"] == 2
