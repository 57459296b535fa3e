"""Jobs as tasks of a real Ray: what dies with its worker is repeated, and what is done is not. What
an engine promises besides is in `tests/contract/test_sweep_engine.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from polygraphy.adapters.ray import engine as engine_module
from polygraphy.adapters.ray.engine import RayEngine
from polygraphy.binding import bind
from polygraphy.domain.errors import FileError
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.domain.sweep.outcome import Row, SweepOutcome
from polygraphy.ports.reporting import Reports
from polygraphy.ports.sweeping import SweepEngine, read_record
from polygraphy.sweep import sweep
from tests.support import models

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow
LIMITS = Limits(timeout=60)


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    here = str(Path.cwd())
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(
        "local", num_cpus=2, runtime_env={"env_vars": {"PYTHONPATH": here}}, log_to_driver=False
    )
    yield RayEngine()
    ray.shutdown()


def job(folder: Path, name: str, program: str, **facts: Any) -> Job:
    command = (sys.executable, "-S", "-c", program)
    return Job(name, command, str(folder / name), str(folder), **facts)


def records_of(
    engine: RayEngine, jobs: list[Job], limits: Limits = LIMITS
) -> dict[str, Mapping[str, Any]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    engine.run(jobs, limits, lambda job, record: found.append((job.key, record)))
    assert len(found) == len(dict(found)) == len(jobs)
    return dict(found)


def wait_for(is_so: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)
    return found


def test_ray_carries_keys_and_exit_codes(
    engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = []

    def get(task: Any) -> Any:
        carried.append(ray.get(task))
        return carried[-1]

    monkeypatch.setattr(engine_module, "ray", _Instead(get))
    found = records_of(engine, [job(tmp_path, str(n), f"raise SystemExit({n})") for n in range(3)])
    assert sorted(carried) == [("0", 0), ("1", 1), ("2", 2)]
    assert all(json.loads((tmp_path / f"{n}.json").read_text()) == found[n] for n in "012")


class _Instead:
    """Ray, with another `get`."""

    def __init__(self, get: Callable[[Any], Any]) -> None:
        self.get = get

    def __getattr__(self, name: str) -> Any:
        return getattr(ray, name)


def test_a_folder_that_hosts_do_not_share_is_one_error(
    engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_VISIBLE", 0.5)
    with (
        bind(read_record, lambda path: None),
        pytest.raises(
            FileError, match=r"Ray ran the cell \(exit code 2\), but .*one.json does not exist"
        ),
    ):
        records_of(engine, [job(tmp_path, "one", "raise SystemExit(2)")])


class _Heard:
    rows: Sequence[Row] = ()

    def sweep(self, outcome: SweepOutcome) -> None:
        self.rows = outcome.rows


def test_a_plan_gives_through_ray_what_it_gives_here(engine: RayEngine, tmp_path: Path) -> None:
    models.save(models.mlp(), tmp_path / "mlp.onnx")
    models.save(models.conv_net(), tmp_path / "conv.onnx")
    plan = {
        "models": ["*.onnx"],
        "reference": "onnx",
        "runners": {"plain": "--onnxrt", "gone": "--onnxrt --providers Nowhere"},
        "precisions": {"fp32": "", "fp16": {"plain": "--fp-to-fp16 --rtol 1e-7 --atol 0"}},
    }
    found = {}
    for name in ("local", "ray"):
        heard = _Heard()
        with bind(Reports, cast("Any", heard)), bind(SweepEngine, engine, "ray"):
            assert not sweep(plan, str(tmp_path / name), str(tmp_path), engine=name)
        found[name] = [
            (row.name, row.state, row.summary, row.output, row.difference) for row in heard.rows
        ]
    assert found["local"] == found["ray"]
    assert {row[1] for row in found["ray"]} == {"passed", "failed", "error"}


def test_a_job_whose_worker_dies_is_run_again_and_once(engine: RayEngine, tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "first = not os.path.exists('pids')\n"
        "open('pids', 'a').write(f'{os.getpid()} {os.getppid()}\\n')\n"
        "time.sleep(99 if first else 0)"
    )
    script = (
        "import os, signal, time\n"
        f"path = {str(tmp_path / 'pids')!r}\n"
        "while not os.path.exists(path) or not open(path).read().endswith('\\n'): time.sleep(.05)\n"
        "pid, worker = map(int, open(path).read().split())\n"
        "os.kill(worker, signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]):
        found = records_of(engine, [job(tmp_path, "one", program)])
    assert found["one"]["code"] == 0
    first, second = (int(line.split()[0]) for line in (tmp_path / "pids").read_text().splitlines())
    assert not is_running(first)
    assert first != second


_DRIVER = """
import sys
import ray
ray.init("local", num_cpus=2, log_to_driver=False)
from polygraphy.adapters.ray.engine import RayEngine
from polygraphy.domain.sweep.cells import Job, Limits
run = "import time; open('{0}.pids', 'a').write('x'); time.sleep({1})"
jobs = [Job(n, (sys.executable, "-S", "-c", run.format(n, 99 if n == "slow" and SLOW else 0)), n, ".")
        for n in ("one", "two", "slow")]
RayEngine().run(jobs, Limits(timeout=300), lambda job, record: print(job.key, flush=True))
"""


def test_a_driver_that_is_killed_resumes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-c", f"SLOW = True{_DRIVER}"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True) as driver:
        wait_for(
            lambda: all((tmp_path / n).exists() for n in ("one.json", "two.json", "slow.pids")), 120
        )
        driver.send_signal(signal.SIGKILL)
    command = [sys.executable, "-c", f"SLOW = False{_DRIVER}"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert sorted(done.stdout.split()) == ["one", "slow", "two"], done.stderr
    runs = {n: (tmp_path / f"{n}.pids").read_text() for n in ("one", "two", "slow")}
    assert runs == {"one": "x", "two": "x", "slow": "xx"}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


_CLUSTER = """
import sys, threading
import ray
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)
from polygraphy.adapters.ray.engine import RayEngine
from polygraphy.domain.sweep.cells import Job, Limits
run = '''
import os, time
with open("{0}.log", "a") as log: log.write(f"start {{os.getpid()}} {{os.getppid()}}\\\\n")
end = time.monotonic() + ({1} if len(open("{0}.log").read().split("start")) == 2 else 0)
while time.monotonic() < end: time.sleep(.05)
with open("{0}.log", "a") as log: log.write("end\\\\n")
'''
jobs = [Job(n, (sys.executable, "-S", "-c", run.format(n, 99 if n.startswith("slow") else 0)), n, ".")
        for n in ("one", "two", "three", "four", "slow1", "slow2")]
def kill():
    import os, time
    while not all(os.path.exists(f"slow{n}.log") for n in (1, 2)): time.sleep(.05)
    cluster.remove_node(nodes[0], allow_graceful=False)
    open("killed", "w").close()
threading.Thread(target=kill, daemon=True).start()
RayEngine().run(jobs, Limits(timeout=20), lambda job, record: print("ended", job.key, record["ended"], flush=True))
"""


def test_a_host_of_two_that_dies_loses_only_what_it_ran(tmp_path: Path) -> None:
    """A head and two hosts of one processor each; one of them is killed while both run a cell."""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-c", _CLUSTER]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        timeout=400,
    )  # fmt: skip
    assert (tmp_path / "killed").exists(), done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("ended ")]
    ended = {name: how for _, name, how in lines}
    logs = {n: (tmp_path / f"{n}.log").read_text() for n in ended}
    assert set(ended) == {"one", "two", "three", "four", "slow1", "slow2"}
    for name in ("one", "two", "three", "four"):  # What was finished is not run again.
        assert (ended[name], logs[name].count("start"), logs[name].count("end")) == ("exit", 1, 1)
    slow = sorted(
        (ended[n], logs[n].count("start"), logs[n].count("end")) for n in ("slow1", "slow2")
    )
    # That of the host that died is run again, and ends; that of the other one runs into its limit.
    assert slow == [("exit", 2, 1), ("timeout", 1, 0)]
    first = next(int(log.split()[1]) for log in logs.values() if log.count("start") == 2)
    assert not is_running(first)
