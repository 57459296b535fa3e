"""Measure `polygraphy diagnose --torch` with the PyTorch of this interpreter.

    python -m exports [--only PART] [--folder FOLDER] [--seed N] [--cases N]

In the folder `lab`. Each program is exported by both exporters: as it is nobody may be to blame;
with a fault planted, or one that the release is known to have, the operator has to be named.
With --only drawn, a seed draws programs: files of other programs, and files in which the example
decided a number, a size or a branch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import logging
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from .command import run_diagnose
from .drawn import drawn_cases
from .planting import faults
from .programs import NETWORKS, OPERATORS, PUBLIC, Program, libraries
from .varied import varied_cases

NONE = "nobody"


def write_export(program: Program, kind: str, folder: Path) -> onnx.ModelProto:
    """Write a program to a folder, and return the model that an exporter creates."""
    module, args = program.make()
    path = folder / f"{program.name}-{kind}.onnx"
    if program.name != "if":
        torch.export.save(torch.export.export(module, args), str(path.with_suffix(".pt2")))
    options: dict[str, Any] = {"dynamo": kind == "dynamo", **program.options}
    if kind == "dynamo":
        options.update(external_data=False, verbose=False)
    torch.onnx.export(module, args, str(path), **options)
    return onnx.load(str(path))


def outputs(model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    """Return the outputs of a model in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feed)


def relative_error(values: list[Any], expected_values: list[Any]) -> float:
    """Return the largest error of outputs, relative to their size."""
    errors = []
    for a, b in zip(values, expected_values):
        if a.shape != b.shape or a.dtype != b.dtype:
            return np.inf
        size = np.sqrt(np.mean(np.square(b.astype(float)))) + 1e-30
        errors.append(float(np.abs(a.astype(float) - b).max(initial=0) / size))
    return max(errors, default=0.0)


class Suite:
    """Counts verdicts."""

    def __init__(self, folder: Path) -> None:
        """Create a suite whose models and reports go into a folder."""
        self.folder = folder
        self.counts: Counter[str] = Counter()

    def healthy(self, program: Program, kind: str) -> onnx.ModelProto | None:
        """Diagnose an unchanged export; return it if it is correct, otherwise None."""
        name = f"{program.name}-{kind}"
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                model = write_export(program, kind, self.folder)
        except Exception as error:  # Exporters can raise anything.
            self.print_now(f"{name:40} not exported: {type(error).__name__} {str(error)[:80]!r}")
            return None
        with torch.no_grad():
            module, args = program.make()
            data = program.data or args
            module_outputs = module(*data)
        leaves = [tensor.numpy() for tensor in torch.utils._pytree.tree_leaves(module_outputs)]
        feed = {value.name: tensor.numpy() for value, tensor in zip(model.graph.input, data)}
        try:
            is_wrong = relative_error(outputs(model, feed), leaves) > 1e-3
        except Exception as error:
            self.print_now(f"{name:40} not run: {str(error)[:80]!r}")
            return None
        expected = program.wrong if is_wrong else ""
        group = "public" if program.wrong else "healthy"
        if program.wrong and not is_wrong:
            self.print_now(f"{name:40} right in this release")
        if is_wrong and not program.wrong:
            self.print_now(f"{name:40} wrong, and not known to be")
        self.judge(group, name, f"{name}.onnx", feed if program.wrong else None, expected)
        return None if is_wrong else model

    def planted(self, program: Program, kind: str, model: onnx.ModelProto) -> None:
        """Diagnose an export with each fault that can be planted."""
        _, args = program.make()
        feed = {value.name: tensor.numpy() for value, tensor in zip(model.graph.input, args)}
        expected = outputs(model, feed)
        for fault in faults(model):
            name = f"{program.name}-{kind}-{fault.name}"
            try:
                is_seen = relative_error(outputs(fault.model, feed), expected) > 1e-2
            except Exception:  # Some changes make the model invalid.
                continue
            if not is_seen:
                continue
            onnx.save(fault.model, str(self.folder / f"{name}.onnx"))
            self.judge("planted", name, f"{name}.onnx", feed, fault.node, fault.causes)

    def judge(
        self, group: str, name: str, model: str, feed: Any, wrong: str, causes: Any = ()
    ) -> None:
        """Run a diagnosis, and count whether its verdict is the expected one."""
        kind = "dynamo" if "-dynamo" in name else "older"
        program = name.partition(f"-{kind}")[0]
        words = f"{self.folder / model} --torch {self.folder}/{program}-{kind}.pt2"
        if program == "if":
            words = f"{self.folder / model} --torch {Path(__file__).parent}/programs.py:apart"
        if feed is not None:
            from polygraphy.json import save_json

            save_json([feed], str(self.folder / "feed.json"))
            words += f" --load-inputs {self.folder}/feed.json"
        start = time.process_time()
        code, document, err = run_diagnose(words)
        seconds = time.process_time() - start
        culprits = document.get("culprits", [])
        culprit_text = "; ".join(
            f"{culprit['party']} {culprit['cause']} {culprit['nodes'][:3]} {culprit.get('origin')}"
            f" proven={culprit['remedy']['proven']}"
            for culprit in culprits
        )
        ops = " ".join(sentence for culprit in culprits for sentence in culprit["evidence"])
        if not wrong:
            is_right = code == 0 and not culprits
        else:
            named = wrong in ops or any(wrong in culprit["nodes"] for culprit in culprits)
            # If the fault was planted into the file, the file is at fault, not the exporter.
            party = "model file" if group == "planted" else "exporter"
            is_right = len(culprits) == 1 and culprits[0]["party"] == party and named
            is_right = is_right and (not causes or culprits[0]["cause"] in causes)
        self.counts[f"{group} {'right' if is_right else 'WRONG'}"] += 1
        mark = "" if is_right else f"  expected {wrong or NONE} {causes or ''}"
        self.print_now(f"{name:46} {seconds:5.1f} s  code {code} {culprit_text or 'nobody'}{mark}")
        if not is_right:
            self.print_now(f"      {document.get('reason', '')} {err.strip()[-400:]}")
            for culprit in culprits:
                self.print_now("      " + " ".join(culprit["evidence"])[:600])

    def drawn(self, seed: int, per_kind: int) -> None:
        """Diagnose random programs."""
        varied = varied_cases(self.folder, seed, per_kind)
        for case in itertools.chain(drawn_cases(self.folder, seed, per_kind), varied):
            group = "drawn healthy" if not case.party else f"drawn {case.party}"
            wrong = case.judge()
            self.counts[f"{group} {'WRONG' if wrong else 'right'}"] += 1
            self.print_now(f"{case.name:46} {wrong or 'right'} {case.words if wrong else ''}")

    def print_now(self, text: str) -> None:
        """Print a text without delay."""
        print(text, flush=True)


def programs_of_part(only: str) -> Iterator[Program]:
    """Yield the programs of a part."""
    parts = {"networks": NETWORKS, "operators": OPERATORS, "public": PUBLIC}
    for name, programs in parts.items():
        if only in ("", name):
            yield from programs
        else:
            yield from (program for program in programs if program.name == only)
    if only in ("", "libraries") or "." in only:
        yield from (library for library in libraries() if "." not in only or library.name == only)


def main() -> int:
    """Export, diagnose and count; return 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(prog="exports", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--only", default="", help="networks, operators, public, libraries, drawn or a name"
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of drawn programs")
    parser.add_argument("--cases", type=int, default=1, help="of each kind of drawn programs")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    suite = Suite(folder)
    print(f"PyTorch {torch.__version__}")
    for program in programs_of_part(arguments.only):
        for kind in program.kinds:
            model = suite.healthy(program, kind)
            if model is not None and program in NETWORKS:
                suite.planted(program, kind, model)
    if arguments.only in ("", "drawn"):
        suite.drawn(arguments.seed, arguments.cases)
    print(dict(sorted(suite.counts.items())))
    return any("WRONG" in key for key in suite.counts)


if __name__ == "__main__":
    raise SystemExit(main())
