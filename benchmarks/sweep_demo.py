"""A sweep over real models, killed and resumed; then the weekly case: one version comes new.

The models are those of the onnx wheel and of three packages, in two runners, two precisions and
three versions of ONNX Runtime.

    python benchmarks/sweep_demo.py --folder .sweep --markdown docs/development/sweep-demo.md
    python benchmarks/sweep_demo.py --folder .sweep --environments venv1 venv2 venv3 --shard 1/20

It needs the package index, unless environments are given and the models are there. It ends with an
error where something was run twice.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
from real_models import unpack

from polygraphy.domain.report.summary import proof_of

_VERSIONS = ("1.20.1", "1.26.0", "1.32.0")
_SHIPPED = ("magika", "silero-vad", "rapidocr-onnxruntime")
"""Packages that ship models."""
_KINDS = ("light", "simple", "pytorch-converted", "pytorch-operator")
_KILLED_AT = 20
"""Cells after which the sweep is killed."""
_LONGEST = 120
_ABOUT = [
    "`make sweep-demo` runs models from the onnx wheel"
    f" ({', '.join(_KINDS)}) and from the packages {', '.join(_SHIPPED)}. It uses two runners, two"
    f" precisions and three versions of ONNX Runtime ({', '.join(_VERSIONS)}). Each version has its"
    " own environment, which the sweep installs from a requirements file. The machine has two"
    " cores, and other processes also use them.",
]


def gather(folder: Path, packages: Path) -> None:
    """Copy the models of packages into a folder."""
    models = folder / "models"
    if models.exists():
        return
    unpack(packages, _SHIPPED)
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind in _KINDS:
        for path in sorted((data / kind).rglob("*.onnx")):
            name = path.stem if path.stem != "model" else path.parent.name
            target = models / kind / f"{name}.onnx"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    shipped = (
        path
        for package in _SHIPPED
        for path in (packages / package.replace("-", "_")).rglob("*.onnx")
    )
    for path in sorted(shipped):
        target = models / "packages" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def write_plan(folder: Path, environments: list[str], count: int) -> None:
    """Write a plan with a number of environments."""
    rows = []
    for version, path in list(zip(_VERSIONS, environments or _VERSIONS))[:count]:
        name = Path(path).name if environments else version
        if environments:
            rows.append(f'"{name}" = "{path}"')
        else:
            (folder / f"ort-{version}.txt").write_text(f"onnxruntime=={version}\n")
            rows.append(f'"{name}" = {{ requirements = "ort-{version}.txt" }}')
    plan = [
        'models = ["models/*/*.onnx"]',
        'reference = "onnx"',
        'flags = "--rtol auto"',
        "[runners]",
        'default = "--onnxrt"',
        'plain = "--onnxrt --graph-optimization-level DISABLE_ALL"',
        "[precisions]",
        'fp32 = ""',
        'fp16 = "--fp-to-fp16"',
        "[environments]",
    ]
    (folder / "plan.toml").write_text("\n".join([*plan, *rows, ""]))


def records(folder: Path) -> dict[str, int]:
    """Return the time at which each cell was run."""
    documents = folder.glob("plan.sweep/cells/*/*.json")
    return {
        document.stem: document.stat().st_mtime_ns
        for document in documents
        if ".report" not in document.name
    }


def start(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    """Start a sweep of the plan in a folder, and return its process."""
    command = [sys.executable, "-m", "polygraphy", "sweep", str(folder / "plan.toml"), *words]
    print("$", " ".join(["polygraphy", *command[3:]]), flush=True)
    return subprocess.Popen(command)


def sweep(folder: Path, words: list[str], report: str) -> tuple[dict[str, Any], float]:
    """Run a sweep to its end; return its document and its seconds."""
    began = time.perf_counter()
    reports = [
        word for end in ("json", "html") for word in ("--report", f"{folder / report}.{end}")
    ]
    code = start(folder, ["--resume", *words, *reports]).wait()
    if code not in (0, 1, 4):
        raise SystemExit(f"The sweep ended with exit code {code}.")
    results = json.loads((folder / f"{report}.json").read_text())["results"]
    [sweep_result] = [result for result in results if result["kind"] == "sweep"]
    return sweep_result, time.perf_counter() - began


def cells_left_alone(before: dict[str, int], after: dict[str, int]) -> None:
    """Exit with an error if a finished cell was run again."""
    twice = [key for key in before if after.get(key) != before[key]]
    if twice:
        raise SystemExit(f"{len(twice)} cells were run twice, such as {twice[0]}.")


def cause_row(group: dict[str, Any]) -> str:
    """Return the row of a cause: number of cells, description and remedy."""
    cause, command = " ".join(group["cause"].replace("|", "/").split()), group["remedy"]
    helps = proof_of(command, proven=group["proven"]) if command else ""
    if command and " --issue " not in command:
        helps += f" `{command if len(command) < _LONGEST else command[:_LONGEST] + ' ...'}`"
    return f"| {len(group['cells'])} | {cause} | {helps} |"


def main() -> int:
    """Run the sweep, stop it, continue it, and check its results; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".sweep"))
    parser.add_argument("--packages", type=Path, default=Path(".models"))
    parser.add_argument("--environments", nargs=3, default=[])
    parser.add_argument("--shard", default="1/1", help="run a part only, where time is short")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True, parents=True)
    gather(args.folder, args.packages)
    words = ["--shard", args.shard]

    write_plan(args.folder, args.environments, 2)
    process = start(args.folder, words)
    while process.poll() is None and len(records(args.folder)) < _KILLED_AT:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1)
    killed = records(args.folder)
    _, seconds = sweep(args.folder, words, "first")
    first = records(args.folder)
    cells_left_alone(killed, first)
    lines = [
        f"First, a sweep over two versions is killed with `kill -9` after {len(killed)} cells, and"
        f" then resumed. The resumed sweep runs the remaining {len(first) - len(killed):,} cells in"
        f" {seconds:.0f} s, and repeats none.",
        "",
    ]

    write_plan(args.folder, args.environments, 3)
    baseline = ["--baseline", str(args.folder / "first.json"), "--diagnose"]
    document, seconds = sweep(args.folder, [*words, *baseline], "second")
    second = records(args.folder)
    cells_left_alone(first, second)
    new = set(second) - set(first)
    stray = [row["name"] for row in document["rows"]
             if row["key"] in new and not row["label"].endswith(_VERSIONS[-1])]  # fmt: skip
    if stray and not args.environments:
        raise SystemExit(f"{len(stray)} cells of old versions were run, such as {stray[0]}.")
    diagnoses = list(args.folder.glob("plan.sweep/diagnoses/*/*[0-9a-f].json"))
    counted = [path for path in diagnoses if ".report" not in path.name]
    lines += [
        f"Then a third version is added, with `--baseline` and `--diagnose`. Only the {len(new)}"
        f" cells of this version run, and {len(counted)} failing cells are diagnosed. Both take"
        f" {seconds:.0f} s in total. {document['merged']} combinations have the same content as"
        " another combination, so they do not run.",
        "",
        "| state | cells |",
        "| --- | ---: |",
    ]
    states = Counter(row["state"] for row in document["rows"])
    lines += [f"| {state} | {count:,} |" for state, count in states.most_common()]
    lines += ["", f"The failing cells have {len(document['groups'])} causes:", ""]
    lines += ["| cells | cause | fix |", "| ---: | --- | --- |"]
    lines += [cause_row(group) for group in document["groups"]]
    text = "\n".join(["# A sweep over real models", "", *_ABOUT, "", *lines, ""])
    print(text)
    if args.markdown:
        args.markdown.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
