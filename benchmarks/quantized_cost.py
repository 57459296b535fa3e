"""Measure what `polygraphy diagnose --within` costs beyond the runs of a quantized model.

    python benchmarks/quantized_cost.py FOLDER [--share 0.5] [--only NAME] [--profile]

The folder holds `NAME.onnx`, `NAME-int8.onnx`, and the data in `NAME.npz`, as `0/INPUT`,
`1/INPUT` and so on. Each diagnosis runs in an interpreter of its own, and so does the floor: a loop
that loads both models, creates their sessions, creates one for the model with switches, and runs it
200 times on all data. The seconds are CPU seconds, of one thread and without what starts before
`main`; they are counted in five parts: in `InferenceSession.run`, in creating sessions, in the
quantizer, in imports, and in everything else, which is the time of this package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RUNS = 200


class Clock:
    """CPU seconds by part; a part inside another counts for itself only."""

    def __init__(self) -> None:
        """Start the clock."""
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self._stack: list[str] = []
        self._since = time.process_time()

    def _switch(self) -> None:
        """Add the time since the last switch to the current part."""
        now = time.process_time()
        part = self._stack[-1] if self._stack else "own"
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure a block as a part."""
        self._switch()
        self._stack.append(name)
        self.counts[name] = self.counts.get(name, 0) + 1
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    def wrap(self, holder: Any, method: str, name: str) -> None:
        """Replace a method by one that is measured as a part."""
        plain: Callable[..., Any] = getattr(holder, method)

        def timed(*words: Any, **options: Any) -> Any:
            """Call the method, measured as the part."""
            with self.part(name):
                return plain(*words, **options)

        setattr(holder, method, timed)

    def stop(self) -> dict[str, float]:
        """Return the seconds of each part."""
        self._switch()
        return {name: round(value, 3) for name, value in self.seconds.items()}


def samples(path: Path) -> list[dict[str, Any]]:
    """Return the input sets in a file."""
    import numpy as np

    feeds: dict[int, dict[str, Any]] = {}
    with np.load(path) as archive:
        for key in archive.files:
            at, _, name = key.partition("/")
            feeds.setdefault(int(at), {})[name] = archive[key]
    return [feeds[at] for at in sorted(feeds)]


def floor(folder: Path, name: str) -> dict[str, Any]:
    """Return the seconds of each part of the plain loop."""
    clock = Clock()
    with clock.part("import"):
        import numpy as np
        import onnx
        import onnxruntime as ort

        from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
    feeds = samples(folder / f"{name}.npz")
    with clock.part("models"):
        reference, model = (onnx.load(str(folder / f"{name}{end}.onnx")) for end in ("", "-int8"))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1

    def session(proto: Any) -> Any:
        """Return a session of a model, measured as a part."""
        with clock.part("sessions"):
            return ort.InferenceSession(proto.SerializeToString(), options)

    for proto in (reference, model):
        compute = session(proto)
        for feed in feeds:
            with clock.part("runs"):
                compute.run(None, feed)
    with clock.part("switches"):
        opened = open_quantized(model, [reference])
        switches = opened.add_switches(is_lazy=True)
    compute, flags = session(switches), np.ones(len(opened.sites), bool)
    flags[::2] = False
    with clock.part("runs"):
        for _ in range(RUNS):
            for feed in feeds:
                compute.run(None, {**feed, switches.graph.input[-1].name: flags})
    return clock.stop()


def ours(folder: Path, name: str, share: float, profile: str) -> dict[str, Any]:
    """Return the seconds of each part of a diagnosis, and its verdict."""
    clock = Clock()
    with clock.part("import"):
        import onnx
        import onnxruntime as ort

        import polygraphy.adapters.onnxruntime.quantizing_again as again
        from polygraphy.adapters.onnxruntime.party import OnnxrtParty
        from polygraphy.binding import bind
        from polygraphy.diagnose import diagnose
        from polygraphy.domain.errors import InconclusiveError
        from polygraphy.logger import G_LOGGER
        from polygraphy.ports.reporting import Findings
    G_LOGGER.module_severity = {"": G_LOGGER.CRITICAL}
    feeds, answer = samples(folder / f"{name}.npz"), {}

    class Kept:
        def report_finding(self, kind: str, facts: Any) -> None:
            """Ignore a finding."""

        def conclude(self, verdict: str, culprits: Any = (), summary: str = "") -> None:
            """Keep verdict, culprits and summary."""
            answer.update(verdict=verdict, culprits=list(culprits), summary=summary)

    clock.wrap(ort.InferenceSession, "run", "runs")
    clock.wrap(ort.InferenceSession, "__init__", "sessions")
    requantize = again.quantize_again

    def timed(*words: Any, **options: Any) -> Any:
        """Quantize a model, measured as a part."""
        with clock.part("quantizer"):
            return requantize(*words, **options)

    again.quantize_again = timed
    within = share * value(folder, name)
    clock = _reset(clock)
    model, reference = (onnx.load(str(folder / f"{name}{end}.onnx")) for end in ("-int8", ""))
    try:
        with bind(Findings, Kept()):
            call = lambda: diagnose(  # noqa: E731
                model, [OnnxrtParty(threads=1)], feeds, reference=reference, within=within
            )
            if profile:
                import cProfile

                profiler = cProfile.Profile(time.process_time)
                try:
                    profiler.runcall(call)
                finally:
                    profiler.dump_stats(profile)
            else:
                call()
    except InconclusiveError:
        pass
    parts: dict[str, Any] = clock.stop()
    first = answer["culprits"][0] if answer.get("culprits") else {}
    runs = next((fact["runs"] for fact in first.get("facts", ()) if "runs" in fact), None)
    parts |= {"counts": clock.counts, "sets": runs, "verdict": answer.get("verdict")}
    parts |= {"nodes": len(first.get("nodes", ())), "summary": answer.get("summary", "")[:200]}
    return parts


def _reset(clock: Clock) -> Clock:
    """Return the clock with the imports as its only part."""
    clock.stop()
    clock.seconds = {"import": clock.seconds.get("import", 0.0)}
    clock.counts = {}
    return clock


def value(folder: Path, name: str) -> float:
    """Return the rms ratio of the quantized model."""
    from polygraphy.adapters.onnxruntime.party import OnnxrtParty
    from polygraphy.domain.quantization.metrics import Outputs, RmsRatio

    feeds = samples(folder / f"{name}.npz")
    values = []
    for end in ("-int8", ""):
        compute = OnnxrtParty(threads=1).load(str(folder / f"{name}{end}.onnx"))
        values.append(Outputs([compute(feed) for feed in feeds]))
    return RmsRatio()(*values)


def main() -> None:
    """Measure all models of a folder, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--only", default="")
    parser.add_argument("--profile", default="")
    parser.add_argument("--part", default="")
    arguments = parser.parse_args()
    if arguments.part:
        measure = floor if arguments.part == "floor" else ours
        words = () if arguments.part == "floor" else (arguments.share, arguments.profile)
        print(json.dumps(measure(arguments.folder, arguments.only, *words)))
        return
    for path in sorted(arguments.folder.glob("*-int8.onnx")):
        name = path.name.removesuffix("-int8.onnx")
        if arguments.only not in name:
            continue
        row = {}
        for part in ("floor", "ours"):
            words = ["--only", name, "--part", part, "--share", str(arguments.share)]
            words += ["--profile", arguments.profile] if arguments.profile else []
            command = [sys.executable, __file__, str(arguments.folder), *words]
            ended = subprocess.run(command, capture_output=True, text=True, check=True)
            row[part] = json.loads(ended.stdout.splitlines()[-1])
            print(name, part, row[part], flush=True)


if __name__ == "__main__":
    main()
