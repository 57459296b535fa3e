"""How much a sweep adds to its cells, in processor seconds; and many cells without work in them.

python benchmarks/sweep_cells.py [--rounds 10] [--cells 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import onnx
from onnx import helper

from polygraphy.binding import bind, resolve
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.ports.sweeping import SweepEngine
from polygraphy.sweep import sweep


def save_model(path: Path, name: str = "identity") -> None:
    """Save a tiny model whose node has a name."""
    node = helper.make_node("Identity", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, 1, [1, 1, 2, 2]) for name in "xy")
    onnx.save(helper.make_model(helper.make_graph([node], name, [x], [y])), path)


def processor_seconds(command: list[str], folder: Path) -> float:
    """Return the CPU seconds of a command and its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def overhead(rounds: int, cells: int = 10) -> None:
    """Print the cost of a cell, measured in turns with a plain run."""
    polygraphy = [sys.executable, "-m", "polygraphy"]
    bare, alone, per_cell = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "identity.onnx")
        rows = "\n".join(f'r{n} = "--onnxrt --atol {n}"' for n in range(1, cells + 1))
        plan = f'models = ["identity.onnx"]\nreference = "onnx"\n[runners]\n{rows}\n'
        (folder / "plan.toml").write_text(plan)
        saved = [
            "run",
            "identity.onnx",
            "--onnx",
            "--save-inputs",
            "i.json",
            "--save-outputs",
            "o.json",
        ]
        processor_seconds([*polygraphy, *saved], folder)
        run = [*polygraphy, "run", "identity.onnx", "--onnxrt"]
        compared = ["--load-inputs", "i.json", "--load-outputs", "o.json", "--report", "r.json"]
        for number in range(rounds):
            bare.append(processor_seconds(run, folder))
            alone.append(processor_seconds([*run, *compared], folder))
            command = [*polygraphy, "sweep", "plan.toml", "--folder", f"f{number}"]
            per_cell.append(processor_seconds(command, folder) / cells)
    base = median(bare)
    for what, seconds in (
        ("bare run", base),
        ("the run of a cell by itself", median(alone)),
        (f"a cell, of {cells} in a sweep", median(per_cell)),
    ):
        print(f"{what:30} {seconds:.3f} s  {seconds / base:.2f}")


class Nothing:
    """Copies a verdict document in place of running cells, by the engine that there is."""

    def __init__(self, engine: SweepEngine, document: Path) -> None:
        """Create the wrapper of an engine."""
        row = {"name": "y", "passed": True, "excess": 0.1, "metrics": {"max_absdiff": 1e-7}}
        document_fields = {
            "summary": "1 output matched; largest error: 10 % of the tolerance ('y').",
            "verdict": "passed",
            "comparisons": [{"outputs": [row]}],
            "parties": [{"times": {"median": 1e-3}}],
            "culprits": [],
        }
        document.write_text(json.dumps(document_fields))
        self._engine, self._document = engine, str(document)

    def run(self, jobs: Any, limits: Limits, ended: Any) -> None:
        """End each job at once, without running it."""
        cell_jobs = [
            Job(job.key, ("cp", self._document, job.report), job.stem, job.folder) for job in jobs
        ]
        self._engine.run(cell_jobs, limits, ended)


def many(cells: int) -> None:
    """Print the cost of a sweep whose cells do nothing."""
    from polygraphy.adapters.report.session import Session
    from polygraphy.domain.report.document import Recorder
    from polygraphy.ports.reporting import Findings

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = cells // 20
        for number in range(models):
            save_model(folder / f"model_{number}.onnx", f"model {number}")
        runners = {f"runner{n}": f"--onnxrt --atol {n}" for n in range(1, 21)}
        plan = {"models": ["*.onnx"], "reference": "onnx", "runners": runners}
        page, document = folder / "page.html", folder / "page.json"
        engine = Nothing(resolve(SweepEngine, "local"), folder / "document")
        os.chdir(folder)
        for what in ("run", "resumed"):
            recorder = Recorder()
            session = Session(recorder, "text", [str(page), str(document)])
            start = time.perf_counter()
            with bind(SweepEngine, engine, "local"), bind(Findings, recorder):
                sweep(plan, "results", resume=True)
            seconds = time.perf_counter() - start
            session.close(0)
            size = page.stat().st_size / 1e6
            print(f"{cells} cells {what}: {seconds:.0f} s, page {size:.1f} MB", flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"memory at most {peak:.0f} MB")
        page_path = os.environ.get("SWEEP_PAGE")
        if page_path:
            Path(page_path).write_bytes(page.read_bytes())


def main() -> None:
    """Print the overhead of a sweep per cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cells", type=int, default=10_000)
    args = parser.parse_args()
    if args.rounds:
        overhead(args.rounds)
    if args.cells:
        many(args.cells)


if __name__ == "__main__":
    main()
