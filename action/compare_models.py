"""The step of the GitHub Action: compares the models of a commit with those of its base.

What is asked for comes in environment variables, as `action.yml` sets them, and is never part of a
command that a shell reads. Ends with 1 where a model does not pass.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POINTER = b"version https://git-lfs"
_PASSED = ("passed", "new", "removed", "unchanged", "not fetched")


def setting(name: str, default: str = "") -> list[str]:
    """Return the words of an input of the action."""
    return shlex.split(os.environ.get(f"POLYGRAPHY_ACTION_{name}") or default)


def git(*words: str, folder: Path | None = None) -> str:
    """Return what git prints; empty where it fails."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=folder)
    return done.stdout if done.returncode == 0 else ""


def models_in(folder: Path, patterns: list[str]) -> list[str]:
    """Return the models that git knows in a folder."""
    listed = git("ls-files", "-z", "--", *patterns, folder=folder)
    return sorted(name for name in listed.split("\0") if name)


@contextmanager
def base_of(commit: str) -> Iterator[Path | None]:
    """Check the base out; None where there is none, or it was not fetched."""
    if not commit or not git("cat-file", "-t", commit):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
        base = Path(folder) / "base"
        git("worktree", "add", "--detach", str(base), commit)
        try:
            yield base if base.is_dir() else None
        finally:
            git("worktree", "remove", "--force", str(base))


def is_pointer(path: Path) -> bool:
    """Return whether Git LFS has the model, and it was not fetched."""
    with path.open("rb") as stream:
        return stream.read(len(_POINTER)) == _POINTER


class Comparing:
    """Compares one model after the other."""

    def __init__(self, base: Path | None, report: Path) -> None:
        """Take the folder of the base, and that of the reports."""
        self._base, self._report = base, report
        self._backends = setting("BACKENDS", "--onnxrt")
        self._data = setting("DATA", "--seed 1")
        self._tolerance = setting("TOLERANCE", "--rtol auto --atol auto")

    def row(self, name: str) -> tuple[str, str]:
        """Return what became of a model, in a word and in a sentence."""
        now, before = Path(name), None if self._base is None else self._base / name
        if not now.exists():
            return "removed", "The base has it."
        known = before is not None and before.exists()
        if is_pointer(now) or (before is not None and known and is_pointer(before)):
            return "not fetched", "A pointer of Git LFS: check out with lfs: true."
        if before is None:
            said = "There is no base to compare with: check out with fetch-depth: 0."
            verdict, summary = self._run(name, [])
            return verdict, f"{said} {summary}"
        if not known:
            verdict, summary = self._run(name, [])
            return ("new" if verdict == "passed" else verdict), summary
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            saved = str(Path(folder) / "base.json")
            words = [str(before), self._backends[0], *self._data, "--save-outputs", saved, "-qq"]
            if self._polygraphy(words):
                return "error", "The model of the base does not run."
            return self._run(name, ["--load-outputs", saved])

    def _run(self, name: str, saved: list[str]) -> tuple[str, str]:
        stem = self._report / name.replace("/", "__")
        compares = bool(saved) or len([word for word in self._backends if word in _FLAGS]) > 1
        words = [name, *self._backends, *self._data, *saved]
        words += self._tolerance if compares else []
        for extension in ("json", "xml", "html"):
            words += ["--report", f"{stem}.{extension}"]
        self._polygraphy([*words, "-q"])
        try:
            document = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return "error", "There is no report: see the log of the step."
        return str(document["verdict"]), str(document["summary"])

    def _polygraphy(self, words: list[str]) -> int:
        # Each run would write a summary of its own.
        env = {name: text for name, text in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
        command = [sys.executable, "-m", "polygraphy", "run", *words]
        return subprocess.run(command, env=env, check=False).returncode


_FLAGS = ("--onnxrt", "--onnx", "--trt", "--tf", "--torch", "--pluginref", "--openvino")


def main() -> int:
    """Compare, write the table, and return the exit code."""
    report = Path((setting("REPORT") or ["polygraphy-report"])[0])
    report.mkdir(parents=True, exist_ok=True)
    patterns = setting("MODELS", "*.onnx")
    with base_of("".join(setting("BASE"))) as base:
        names = {*models_in(Path(), patterns), *(models_in(base, patterns) if base else ())}
        comparing = Comparing(base, report)
        rows = [(name, *comparing.row(name)) for name in sorted(names)]
    lines = ["| model | | |", "| --- | --- | --- |"]
    for name, verdict, summary in rows:
        cells = (" ".join(cell.replace("|", "\\|").split()) for cell in (name, verdict, summary))
        lines.append(f"| {' | '.join(cells)} |")
    if not rows:
        lines = [f"No model matches {' '.join(patterns)}."]
    text = "\n".join(["### Polygraphy", "", *lines, ""])
    summary_path = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_path:
        with Path(summary_path).open("a", encoding="utf-8") as stream:
            stream.write(text)
    print(text)
    return int(any(verdict not in _PASSED for _, verdict, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
