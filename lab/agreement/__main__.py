"""Draw cases, run each command about the same data, and print every contradiction."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # noqa: F401 - before the forks, which then need not import it
from faults.hosts import quantized_network
from faults.joined import fill_logits, join_parts
from faults.planted_cases import PLANTS, half, host, shows
from faults.planting import plant_fault

from .commands import Done, run, run_line

AUTO = ("--rtol", "auto", "--atol", "auto")
ORACLES = ("backends", "named", "reference", "outputs", "tensors", "levels")
_QUOTED = re.compile(r"'([^']*)'")
NAMES = ("m.onnx", "a b.onnx", "it's.onnx", "-m.onnx", "m$1.onnx", "m;x.onnx")


class Drawn:
    """A case: a folder with a healthy and perhaps a faulty model, and options."""

    def __init__(self, seed: int, folder: Path) -> None:
        """Draw the models and options, and write the models."""
        rng = np.random.default_rng(seed)
        self.folder = folder
        model, self.kind = _model(rng)
        self.oracle = str(rng.choice(ORACLES))
        faulty = model
        if rng.random() < 0.55 and self.oracle in ("reference", "outputs", "tensors"):
            faulty, kind = _faulty(model, rng)
            self.kind += f", {kind}"
        if rng.random() < 0.25 and "quantized" not in self.kind:
            faulty, self.kind = half(faulty), f"{self.kind}, half"
        self.model = str(rng.choice(NAMES)) if rng.random() < 0.3 else "m.onnx"
        self.path = f"./{self.model}" if self.model.startswith("-") else self.model
        onnx.save(model, folder / "healthy.onnx")
        onnx.save(faulty, folder / self.model)
        data: list[tuple[str, ...]] = [(), ("--seed", "3"), ("--iterations", "2")]
        floats = [value for value in model.graph.input if value.type.tensor_type.elem_type == 1]
        if len(floats) == len(model.graph.input):
            data += [("--val-range", "[-1,1]"), ("--val-range", "[0,1]", "--iterations", "3")]
        self.data = data[int(rng.integers(len(data)))]
        self.tolerance = [(), AUTO, ("--rtol", "1e-3", "--atol", "1e-3"), ("--rtol", "auto")][
            int(rng.integers(4))
        ]
        self.runs, self.diagnoses = self._oracle_options()

    def _oracle_options(self) -> tuple[list[str], list[str]]:
        """Return the options of `run` and of `diagnose` that name the reference."""
        if self.oracle == "backends":
            return ["--onnxrt", "--onnx"], ["--onnxrt", "--onnx"]
        if self.oracle == "named":
            both = ["--runner", "a=--onnxrt", "--runner", "b=--onnx"]
            return both, both
        if self.oracle == "levels":
            plain = "--onnxrt --graph-optimization-level DISABLE_ALL"
            both = ["--runner", "a=--onnxrt", "--runner", f"plain={plain}"]
            return both, both
        mark = ["--onnx-outputs", "mark", "all"] if self.oracle == "tensors" else []
        saved = ["--save-outputs", "g.json", "--save-inputs", "i.json"]
        done = run(["run", "healthy.onnx", "--onnxrt", *self.data, *mark, *saved], self.folder)
        if done.code:
            raise RuntimeError(done.out[-500:])
        self.data = ("--load-inputs", "i.json")
        against = ["--reference", "healthy.onnx"] if self.oracle == "reference" else []
        against = against or ["--golden", "g.json"]
        # A model cast to half precision has additional tensors, which were not saved.
        partly = ["--allow-missing-outputs"] if mark else []
        runs = ["--onnxrt", "--load-outputs", "g.json", *mark, *partly]
        return runs, ["--onnxrt", *against]


def _model(rng: np.random.Generator) -> tuple[onnx.ModelProto, str]:
    """Return a healthy model and the name of its kind."""
    kind = str(rng.choice(["host", "host", "joined", "filled", "quantized"]))
    if kind == "host":
        return host(rng), kind
    if kind == "quantized":
        return host(rng, quantized_network), kind
    return (join_parts if kind == "joined" else fill_logits)(rng), kind


def _faulty(model: onnx.ModelProto, rng: np.random.Generator) -> tuple[onnx.ModelProto, str]:
    """Return a copy with one or two faults and their names, or the model if none fits."""
    faulty, kinds = model, []
    for _ in range(1 + int(rng.random() < 0.3)):
        kind = str(rng.choice(list(PLANTS)))
        result = plant_fault(faulty, kind, rng, PLANTS)
        if result is not None:
            faulty, kinds = result[0], [*kinds, kind]
    if not kinds or not shows(model, faulty, _example(model, rng)):
        return model, "no fault"
    return faulty, " and ".join(kinds)


def _example(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return an input set."""
    feed = {}
    for value in model.graph.input:
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feed[value.name] = (
            rng.random(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype)
        )
    return feed


def contradictions(case: Drawn) -> Iterator[str]:
    """Yield each contradiction between the commands of a case, as a sentence."""
    ran = run(["run", case.path, *case.runs, *case.data, *case.tolerance], case.folder)
    judged = run(["run", case.path, *case.runs, *case.data, *AUTO], case.folder)
    if -signal.SIGSEGV in (ran.code, judged.code):
        raise RuntimeError("the backend crashes")
    words = ["diagnose", case.path, *case.diagnoses, *case.data]
    diagnosis = run(words, case.folder)
    for name, done in (("run", ran), ("run auto", judged), ("diagnose", diagnosis)):
        if done.code not in (0, 1, 4) or "Traceback" in done.out:
            yield f"{name} ended with {done.code}: {done.out[-300:]}"
    # A diagnosis that knows both models may prove more than outputs show, if it says so.
    is_explained = "so run --rtol auto accepts these outputs" in diagnosis.out
    if (judged.code, diagnosis.code) in ((0, 1), (1, 0)) and not (is_explained and not judged.code):
        yield f"run auto ends with {judged.code}, diagnose with {diagnosis.code}"
    for done in (ran, judged):
        for line in _commands_under(done, "next"):
            yield from _check_next(case, line, diagnosis)
    for line in _commands_under(diagnosis, "FIX"):
        yield from _check_fix(case, line, words)
        yield from _check_names(diagnosis, line)


def _commands_under(done: Done, title: str) -> list[str]:
    """Return the commands that a command printed after a title."""
    lines = [line.strip().partition(" ") for line in done.out.splitlines()]
    commands = [command.strip() for word, _, command in lines if word == title]
    return list(dict.fromkeys(command for command in commands if command.startswith("polygraphy ")))


def _check_next(case: Drawn, line: str, diagnosis: Done) -> Iterator[str]:
    """Yield a sentence if the next command passes a failed diagnosis, or does not run."""
    done = run_line(line, case.folder)
    if done.code not in (0, 1, 4):
        yield f"next {line}: {done.code} {done.out[-300:]}"
    if (done.code, diagnosis.code) in ((0, 1), (1, 0)):
        yield f"next {line}: {done.code}, diagnose: {diagnosis.code}"


def _check_names(diagnosis: Done, line: str) -> Iterator[str]:
    """Yield a sentence for each node that is in a FIX or in a sentence, but not in both:"""
    if (
        "makes all outputs match" not in diagnosis.out
        and "make all outputs match" not in diagnosis.out
    ):
        return
    words = shlex.split(line)
    if words[1:3] != ["surgeon", "copy"] or "--nodes" not in words or "&&" in words:
        return
    copied = set(words[words.index("--nodes") + 1 : words.index("-o")])
    titles = [row for row in diagnosis.out.splitlines() if row.startswith("CULPRIT")]
    named = {name for title in titles for name in _QUOTED.findall(title)}
    if titles and copied != named and not any(" more" in title for title in titles):
        yield f"FIX {line} copies {sorted(copied)}, the culprits are {sorted(named)}"


def _check_fix(case: Drawn, line: str, words: list[str]) -> Iterator[str]:
    """Yield a sentence if a FIX does not run, or its result does not match."""
    fresh = case.folder.with_name(f"{case.folder.name}-fix")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(case.folder, fresh)
    done = run_line(line, fresh)
    last = shlex.split(line.rpartition(" && ")[2] or line)
    if done.code:
        yield f"FIX {line}: {done.code} {done.out[-300:]}"
    elif last[1] in ("surgeon", "convert") and "-o" in last:
        fixed = last[last.index("-o") + 1]
        if last[1] == "convert":
            healthy = fresh / last[2]
            again = run(
                ["diagnose", fixed, "--onnxrt", "--reference", str(healthy), *case.data], fresh
            )
        else:
            again = run([words[0], fixed, *words[2:]], fresh)
        if again.code:
            yield f"FIX {line}: what it saves: {again.code} {again.out[-400:]}"


def main() -> int:
    """Run the cases of the command line; return 1 if commands contradict each other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="first seed; each case has its own")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="folder that keeps the cases with contradictions")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, str(seed))
            folder.mkdir()
            try:
                case = Drawn(seed, folder)
                wrong = list(contradictions(case))
            except Exception:
                counts["not drawn"] += 1
                print(f"{seed}: not drawn: {traceback.format_exc().splitlines()[-1]}", flush=True)
                continue
            counts["wrong" if wrong else "right"] += 1
            for text in wrong:
                about = (case.kind, case.oracle, case.model, " ".join(case.data))
                print(f"{seed}: {'; '.join(about)}: {text}", flush=True)
            if wrong and options.keep:
                shutil.copytree(folder, options.keep / str(seed), dirs_exist_ok=True)
    print(json.dumps(counts))
    return int(bool(counts["wrong"]))


if __name__ == "__main__":
    raise SystemExit(main())
