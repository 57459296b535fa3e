"""The step of the GitHub Action: compare the models of a commit with those of its base.

`action.yml` passes the inputs of the action in environment variables, so no shell reads them.
Exits with 1 if a model does not pass.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polygraphy.adapters.report.markdown import text_of
from polygraphy.lifetime import end_group, start_command
from polygraphy.logger.sinks import escape_controls
from polygraphy.python_command import safe_command

_GIT = shutil.which("git") or "git"
"""Found before the step enters the checkout, because Windows starts a `git.exe` in the current
folder first."""
_POINTER = b"version https://git-lfs"
_SUBMODULE = "160000"
"""The mode of a submodule in a commit."""
_PASSED = ("passed", "new", "removed", "unchanged")


def words_of_input(name: str, default: str = "") -> list[str]:
    """Return the words in an input of the action, split as in a shell."""
    return shlex.split(os.environ.get(f"POLYGRAPHY_ACTION_{name}") or default)


class StepError(Exception):
    """Raised if the step fails, in contrast to having nothing to compare."""


def run_git(*words: str, folder: Path | None = None) -> str:
    """Return the standard output of git.

    Raises:
        StepError: git fails, or is not installed.
    """
    try:
        done = subprocess.run(
            [_GIT, *words],
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            cwd=folder,
        )
    except OSError as error:
        raise StepError(f"git cannot be run: {error.strerror}.") from error
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"it ended with exit code {done.returncode}"
        raise StepError(f"git {words[0]} failed: {reason}")
    return done.stdout


def models_in(folder: Path, patterns: list[str]) -> list[str]:
    """Return the models in a folder that git tracks, sorted by name."""
    if not folder.is_dir():
        return []
    listed = run_git("ls-files", "-z", "--", *patterns, folder=folder)
    return sorted(name for name in listed.split("\0") if name)


def renamed_files(commit: str) -> dict[str, str]:
    """Return the names of renamed files in a commit, by their current names."""
    options = ("--cached", "--name-status", "-z", "-M", "--diff-filter=R", "--relative")
    fields = run_git("diff", *options, commit, "--").split("\0")
    return dict(zip(fields[2::3], fields[1::3]))


def changed_in_submodules(commit: str, patterns: list[str]) -> list[str]:
    """Return the models in submodules that changed since a commit; git did not check out the
    submodules of the base.
    """
    options = ("--cached", "--raw", "-z", "--no-renames", "--relative")
    fields = run_git("diff", *options, commit, "--").split("\0")
    changed = [name for row, name in zip(fields[::2], fields[1::2]) if row.split()[1] == _SUBMODULE]
    if not changed:
        return []
    listed = run_git("ls-files", "-z", "--recurse-submodules", "--", *patterns).split("\0")
    return [name for name in listed if name.startswith(tuple(f"{path}/" for path in changed))]


def changed_data(commit: str, name: str) -> list[str]:
    """Return the other files that changed since a commit and may contain weights of a model: Git
    LFS pointer files, and files that are not text, in the folder of the model or below.
    """
    folder = f":(literal){Path(name).parent.as_posix()}"
    options = ("--cached", "--numstat", "-z", "--no-renames", "--relative")
    rows = run_git("diff", *options, commit, "--", folder).split("\0")
    fields = [row.split("\t", 2) for row in rows if row]
    return [
        changed
        for added, _, changed in fields
        if changed != name
        and (added == "-" or not Path(changed).is_file() or is_pointer(Path(changed)))
    ]


def is_fetched(commit: str) -> bool:
    """Return whether the repository contains a commit, and git can read it."""
    try:
        run_git("cat-file", "-e", f"{commit}^{{commit}}")
    except StepError:
        return False
    return True


@contextmanager
def check_out_base(commit: str) -> Iterator[Path | None]:
    """Yield the folder that corresponds to the current one in a checkout of the base commit; None
    if there is no base or it is not fetched.

    Raises:
        StepError: git cannot check the base out.
    """
    if not commit or not is_fetched(commit):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
        base = Path(folder) / "base"
        run_git("worktree", "add", "--detach", str(base), commit)
        try:
            yield base / run_git("rev-parse", "--show-prefix").removesuffix("\n")
        finally:
            run_git("worktree", "remove", "--force", str(base))


def is_pointer(path: Path) -> bool:
    """Return whether a file is a Git LFS pointer instead of a model."""
    with path.open("rb") as stream:
        return stream.read(len(_POINTER)) == _POINTER


class ModelComparison:
    """The comparison of each model with its version in the base, and between backends."""

    def __init__(
        self, base: Path | None, report: Path, listed: set[str], renamed: dict[str, str]
    ) -> None:
        """Create the comparison of the models in a base folder, with a folder for reports.

        Args:
            base: the folder of the base; None without one.
            report: the folder for reports.
            listed: the names of the models in the current commit.
            renamed: the old names of renamed files, by their current names.
        """
        self._base, self._report, self._listed = base, report, listed
        self._commit = "".join(words_of_input("BASE"))
        self._renamed = renamed
        self._stems: set[str] = set()
        self._backends = words_of_input("BACKENDS", "--onnxrt")
        self._data = words_of_input("DATA", "--seed 1")
        self._tolerance = words_of_input("TOLERANCE", "--rtol auto --atol auto")

    def compare(self, name: str) -> tuple[str, str]:
        """Return the result for a model, as a word and a sentence."""
        if name not in self._listed:
            names = [new for new, old in self._renamed.items() if old == name]
            return "removed", "".join(
                [f"Renamed to {new}." for new in names] or "The model exists only in the base."
            )
        earlier = self._renamed.get(name, name)
        now, before = Path(name), None if self._base is None else self._base / earlier
        if not now.is_file():
            return "error", "The file is in the git index, but not in the checkout."
        # `lexists`, because the file may be a broken link.
        is_in_base = before is not None and os.path.lexists(before)
        files = [path for path in (now, before) if path is not None and path.is_file()]
        pointers = [path for path in files if is_pointer(path)]
        if pointers:
            return self._pointer_result(name, pointers)
        if before is None:
            note = "The base commit is missing: check out with fetch-depth: 0."
            if self._commit:
                return "error", note
            verdict, summary = self._run(name, [])
            return verdict, f"{note} {summary}"
        if not is_in_base:
            verdict, summary = self._run(name, [])
            return ("new" if verdict == "passed" else verdict), summary
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            saved = str(Path(folder) / "base.json")
            first = self._first_backend()
            words = [str(before), *first, *self._data, "--save-outputs", saved, "-qq"]
            if self._run_polygraphy(words):
                return "error", "The model in the base commit does not run."
            verdict, summary = self._run(name, ["--load-outputs", saved])
            return verdict, summary if earlier == name else f"Renamed from {earlier}. {summary}"

    def _pointer_result(self, name: str, pointers: list[Path]) -> tuple[str, str]:
        """Return the result for a Git LFS pointer file, as a word and a sentence."""
        if len({path.read_bytes() for path in pointers}) < len(pointers):
            if data := changed_data(self._commit, name):
                return "not fetched", (
                    f"{data[0]} may contain weights of the model, and changed: check out with"
                    " lfs: true."
                )
            return "unchanged", "The Git LFS pointer file is the same as in the base."
        return "not fetched", "The file is a Git LFS pointer: check out with lfs: true."

    def _run(self, name: str, saved: list[str]) -> tuple[str, str]:
        """Return verdict and summary of a run of a model, compared with any `saved` outputs."""
        stem = self._report_stem(name)
        compares = bool(saved) or self._compares_backends()
        words = [
            f"./{name}" if name.startswith("-") else name
        ]  # A name with a leading dash would be read as an option.
        words += [*self._backends, *self._data, *saved]
        words += self._tolerance if compares else []
        for extension in _REPORTS:
            words += ["--report", f"{stem}.{extension}"]
        code = self._run_polygraphy([*words, "-qq"])
        try:
            document = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
            verdict, summary = str(document["verdict"]), str(document["summary"])
        except (OSError, ValueError, KeyError, TypeError):
            return "error", "No report was written: see the log of the step."
        if code and verdict in _PASSED:
            return "error", f"Exited with code {code}: see the log of the step. {summary}"
        return verdict, summary

    def _backend_positions(self) -> list[int]:
        """Return the position of the first word of each backend."""
        return [at for at, word in enumerate(self._backends) if word in _FLAGS]

    def _compares_backends(self) -> bool:
        """Return whether there are several backends to compare."""
        return len(self._backend_positions()) > 1

    def _first_backend(self) -> list[str]:
        """Return the words of the first backend, with its options."""
        return self._backends[: [*self._backend_positions()[1:], len(self._backends)][0]]

    def _report_stem(self, name: str) -> str:
        """Return the path of a model's reports, without extension; older reports are removed."""
        stem = name.replace("/", "__")
        while stem.casefold() in self._stems:
            # Different paths can have the same name, such as a/b.onnx and a__b.onnx.
            stem += "_"
        self._stems.add(stem.casefold())
        for extension in _REPORTS:
            (self._report / f"{stem}.{extension}").unlink(missing_ok=True)
        return str(self._report / stem)

    def _run_polygraphy(self, words: list[str]) -> int:
        """Return the exit code of `polygraphy run` with some words."""
        # Without this, each run would write its own summary.
        env = {name: text for name, text in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
        command = safe_command([sys.executable, "-m", "polygraphy", "run", *words])
        process = start_command(command, env=env)
        try:
            return process.wait()
        finally:
            end_group(process)
            process.wait()


_REPORTS = ("json", "xml", "html")
_FLAGS = ("--onnxrt", "--onnx", "--trt", "--tf", "--torch", "--pluginref", "--openvino", "--runner")


def main() -> int:
    """Compare all models, write the summary, and return the exit code of the step."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # The step starts in the folder of the action, so that Python imports nothing from the checkout.
    if Path.cwd() == Path(__file__).resolve().parent.parent:
        os.chdir(os.environ.get("GITHUB_WORKSPACE") or ".")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(os.path.isabs, paths))
    try:
        rows = compare_models()
    except (StepError, OSError, ValueError) as error:
        write_summary([f"Nothing was compared: {text_of(str(error))}"])
        sys.stdout.flush()
        print(f"::error title=Polygraphy::{escape_controls(' '.join(str(error).split()))}")
        return 3
    lines = ["| model | result | details |", "| --- | --- | --- |"]
    lines += [f"| {' | '.join(map(text_of, row))} |" for row in rows]
    write_summary(lines)
    return int(any(verdict not in _PASSED for _, verdict, _ in rows))


def compare_models() -> list[tuple[str, str, str]]:
    """Return name, verdict and sentence for each model.

    Raises:
        StepError: git cannot list the models, or none matches.
    """
    run_git("cat-file", "-e", "HEAD^{commit}")
    report = Path((words_of_input("REPORT") or ["polygraphy-report"])[0])
    report.mkdir(parents=True, exist_ok=True)
    patterns = words_of_input("MODELS", "*.onnx")
    commit = "".join(words_of_input("BASE"))
    with check_out_base(commit) as base:
        folders = [Path(), base] if base else [Path()]
        for pattern in patterns:
            if not any(models_in(folder, [pattern]) for folder in folders):
                raise StepError(f"no model in git matches {pattern}. Check the input models.")
        listed = set(models_in(Path(), patterns))
        names = {name for folder in folders for name in models_in(folder, patterns)}
        comparison = ModelComparison(base, report, listed, renamed_files(commit) if base else {})
        rows = []
        for name in sorted(names):
            verdict, summary = comparison.compare(name)
            line = f"{name}: {verdict.upper()} {' '.join(summary.split())}"
            print(escape_controls(line), flush=True)
            rows.append((name, verdict, summary))
        inside = changed_in_submodules(commit, patterns) if base else []
        why = "Its submodule changed, and models in submodules are not compared."
        return rows + [(name, "error", why) for name in inside]


def write_summary(lines: list[str]) -> None:
    """Print lines of Markdown, and append them to the summary of the step."""
    text = "\n".join(["### Polygraphy", "", *lines, ""])
    summary_path = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_path:
        with Path(summary_path).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    print(escape_controls(text), flush=True)


if __name__ == "__main__":
    sys.exit(main())
