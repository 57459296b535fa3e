"""Count the mutants of the product that its tests do not notice.

    make mutants BIN=.venv-test/bin    # 30 mutants of the commit that is checked out
    python lab/mutants.py --seed 7 --count 300 --json mutants.json
    python lab/mutants.py --seed 7 --count 300 --before 5eaf8dd7    # with the tests of both
    python lab/mutants.py --commit /a/tree --before /a/tree/before    # folders instead of commits

A mutant is the product with one expression changed: a comparison flipped, a number off by one, a
condition negated, a returned value replaced or a call dropped. Lines are drawn by the seed, and one
change of each. Then the tests that reach the line run, in a process with a time limit, until one
fails. A mutant that survives shows a line that no test checks, or a change that means the same.

Which tests reach the drawn lines is recorded first, by a run of all tests of each commit
(`--map-of` takes the record of another commit: tests are matched by name). Records and copies of
commits are kept in the folder `.mutants`; nothing outside it is written, so this may be killed at
any time. With `--log FILE` the next call goes on where this one ended.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import mutants_recorder

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "polygraphy"

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}

_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)

KILLED, TIMED_OUT, SURVIVED, UNREACHED = "killed", "timed out", "survived", "unreached"
NOT_RUN = "not run"
"""The result of a mutant for which no time was left."""


@dataclass(frozen=True)
class Mutant:
    """One change of one expression.

    Columns count UTF-8 bytes, as those of `ast` do.
    """

    path: str
    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    before: str
    after: str

    def apply_to(self, source: str) -> str:
        """Return the source of the file with the change."""
        text = source.encode()
        starts = _line_starts(text)
        start = starts[self.line - 1] + self.column
        end = starts[self.end_line - 1] + self.end_column
        if text[start:end].decode() != self.before:
            raise ValueError(f"{self.path}:{self.line} is not {self.before!r}")
        return (text[:start] + self.after.encode() + text[end:]).decode()


def _line_starts(text: bytes) -> list[int]:
    """Return the byte at which each line starts, and the length of the text."""
    return list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))


@dataclass(frozen=True)
class Outcome:
    """What the tests of a commit said about a mutant."""

    commit: str
    mutant: Mutant
    result: str
    tests: int
    """How many tests ran at most."""
    killer: str = ""
    seconds: float = 0.0


def find_mutants(path: str, source: str) -> list[Mutant]:
    """Return every change of the bodies of functions in a file, in the order of the source."""
    mutants: list[Mutant] = []
    text = source.encode()
    starts = _line_starts(text)

    def add(kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        """Append a mutant that replaces a node by other source text."""
        position = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        first, last = starts[position[0] - 1] + position[1], starts[position[2] - 1] + position[3]
        mutants.append(Mutant(path, kind, *position, text[first:last].decode(), after))

    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    nested = {
        inner
        for function in functions
        for inner in ast.walk(function)
        if inner is not function and isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    for function in functions:
        if function not in nested:
            for statement in function.body:
                for node in _walk(statement):
                    for kind, place, after in _changes(node):
                        add(kind, place, after)
    return sorted(mutants, key=lambda m: (m.line, m.column, m.end_line, m.end_column, m.kind))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it, without the parts of f-strings and annotations."""
    yield node
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.JoinedStr) or name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _walk(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield each change of a node: its kind, the replaced node, and the new source."""
    if isinstance(node, ast.Compare):
        operators = [_FLIPPED[type(node.ops[0])](), *node.ops[1:]]
        changed = ast.Compare(node.left, operators, node.comparators)
        yield "comparison", node, f"({ast.unparse(changed)})"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", node, str(node.value + 1)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, bool):
            yield "return value", node, f"return {not node.value.value}"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return value", node, "return None"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "dropped call", node, "pass"
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "condition", node.test, f"(not ({ast.unparse(node.test)}))"


class Commit:
    """A commit, copied into a folder of its own, and which of its tests reach which lines.

    The path of a folder that holds the files of a commit will do, where git or its history is not.
    """

    def __init__(self, revision: str, folder: Path) -> None:
        """Resolve a revision or path, and create the folder of its records."""
        self._source = Path(revision).resolve() if (Path(revision) / PACKAGE).is_dir() else None
        self.name = (
            self._source.name
            if self._source
            else _git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
        )
        self.folder = folder / self.name[:12]
        self.folder.mkdir(parents=True, exist_ok=True)

    def copy(self, name: str) -> Path:
        """Return a folder with a fresh copy of the commit."""
        target = self.folder / name
        if self._source:
            return _copy(self._source, target)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        archive = subprocess.Popen(
            ["git", "-C", ROOT, "archive", self.name], stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", target], stdin=archive.stdout, check=True)
        if archive.wait():
            raise SystemExit(f"git archive {self.name} failed")
        return target

    def sources(self) -> dict[str, str]:
        """Return the files of the product by path."""
        tree = self._source or self.folder / "tree"
        if not (tree / PACKAGE).is_dir():
            self.copy("tree")
        return {
            path.relative_to(tree).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted((tree / PACKAGE).rglob("*.py"))
        }

    def map_tests(self, lines: set[tuple[str, int]], jobs: int, *selected: str) -> None:
        """Run the selected tests once, and record the lines that each reaches."""
        if lines <= self._recorded_lines():
            return
        if not hasattr(sys, "monitoring"):
            raise SystemExit("recording which tests reach which lines needs Python 3.12 or later")
        folder = self.folder / "map"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        mutants_recorder.write_lines(str(folder), lines)
        tree = _compile_tree(self.copy("mapped"))
        shutil.copy(mutants_recorder.__file__, tree / "sitecustomize.py")
        variables = {mutants_recorder.FOLDER: str(folder), mutants_recorder.ROOT: str(tree)}
        with (folder / "log.txt").open("w") as log:
            code = subprocess.run(
                [*_pytest("-n", str(jobs), "-p", "sitecustomize"), *selected],
                cwd=tree,
                env=_environment(tree) | variables,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode
        if code not in (0, 1):
            raise SystemExit(f"the tests of {self.name} could not run: see {folder / 'log.txt'}")
        (folder / "complete").touch()

    def _recorded_lines(self) -> set[tuple[str, int]]:
        """Return the lines for which a record of their tests exists."""
        folder = self.folder / "map"
        if not (folder / "complete").exists():
            return set()
        rows = (folder / mutants_recorder.LINES).read_text(encoding="utf-8").splitlines()
        return {(path, int(line)) for line, _, path in (row.partition(" ") for row in rows)}

    def tests_of(self, lines: set[tuple[str, int]]) -> dict[tuple[str, int], list[str]]:
        """Return the passing tests that reach each line, fastest first."""
        folder = self.folder / "map"
        seconds: Counter[str] = Counter()
        failed: set[str] = set()
        for row in _json_lines(folder.glob("ends-*.jsonl")):
            seconds[row["test"]] += row["seconds"]
            if row["outcome"] != "passed":
                failed.add(row["test"])
        tests: dict[tuple[str, int], set[str]] = {line: set() for line in lines}
        for row in _json_lines(folder.glob("lines-*.jsonl")):
            if row["test"] in seconds and row["test"] not in failed:
                for path, line in row["lines"]:
                    if (path, line) in tests:
                        tests[path, line].add(row["test"])
        return {
            line: sorted(names, key=lambda name: (seconds[name], name))
            for line, names in tests.items()
        }


def draw(sources: dict[str, str], seed: int, count: int) -> list[Mutant]:
    """Return one random change of each of some random lines."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for path, source in sorted(sources.items()):
        for mutant in find_mutants(path, source):
            by_line.setdefault((path, mutant.line), []).append(mutant)
    generator = random.Random(seed)
    lines = sorted(by_line)
    generator.shuffle(lines)  # The first mutants of a seed are the same for every count.
    return [generator.choice(by_line[line]) for line in lines[:count]]


def follow(
    mutants: Iterable[Mutant], before: dict[str, str], after: dict[str, str]
) -> list[Mutant]:
    """Return the mutants whose lines exist in another commit, at their place there."""
    followed = []
    for mutant in mutants:
        old, new = before[mutant.path].splitlines(), after.get(mutant.path, "").splitlines()
        wanted = range(mutant.line - 1, mutant.end_line)
        for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            if block.a <= wanted[0] and wanted[-1] < block.a + block.size:
                shift = block.b - block.a
                moved = replace(mutant, line=mutant.line + shift, end_line=mutant.end_line + shift)
                followed.append(moved)
    return followed


@dataclass(frozen=True)
class Settings:
    """How the tests run."""

    jobs: int
    timeout: float
    """Seconds for the tests of one mutant."""
    limit: int
    """How many tests of a mutant run at most, the fastest."""
    end: float = float("inf")
    """The time of the monotonic clock after which no further mutant is tried."""


class Log:
    """What was found out so far, in a file if a path is given."""

    def __init__(self, path: Path | None) -> None:
        """Read the outcomes of earlier calls from a file."""
        self._path, self._lock = path, threading.Lock()
        self._outcomes: dict[tuple[str, Mutant], Outcome] = {}
        self._fails: dict[tuple[str, str], bool] = {}
        for row in _json_lines([path] if path and path.exists() else []):
            if "mutant" in row:
                mutant = Mutant(**row["mutant"])
                self._outcomes[row["commit"], mutant] = Outcome(**row | {"mutant": mutant})
            else:
                self._fails[row["commit"], row["test"]] = row["fails"]

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        self._outcomes[outcome.commit, outcome.mutant] = outcome
        self._append(asdict(outcome))

    def add_test(self, commit: str, test: str, fails: bool) -> None:
        """Record whether a test fails without a mutant."""
        self._fails[commit, test] = fails
        self._append({"commit": commit, "test": test, "fails": fails})

    def _append(self, row: dict[str, Any]) -> None:
        """Append a row to the file, if there is one."""
        if self._path:
            with self._lock, self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def fails(self, commit: str, test: str) -> bool | None:
        """Return whether a test fails without a mutant; None if it was not tried."""
        return self._fails.get((commit, test))

    def outcome(self, commit: str, mutant: Mutant) -> Outcome:
        """Return the outcome of a mutant, without tests that always fail."""
        outcome = self._outcomes.get((commit, mutant))
        if outcome is None or self.fails(commit, outcome.killer):
            return Outcome(commit, mutant, NOT_RUN, 0)
        return outcome

    def untried_killers(self, commit: str) -> list[str]:
        """Return the tests that killed a mutant and were not tried without one."""
        killers = {o.killer for (of, _), o in self._outcomes.items() if of == commit and o.killer}
        return sorted(test for test in killers if self.fails(commit, test) is None)


class Side:
    """The mutants of one commit, the tests of each, and copies of the commit to run them in.

    `mapped` has the tests on record for a place of each mutant.
    """

    def __init__(
        self,
        commit: Commit,
        mutants: Sequence[Mutant],
        mapped: Commit,
        places: Sequence[Mutant],
    ) -> None:
        """Collect the tests of each mutant from the record of a commit."""
        self.commit, self.mutants = commit, mutants
        self._clean = _compile_tree(commit.copy("clean"))
        self._trees: SimpleQueue[Path] = SimpleQueue()
        self._numbers = iter(range(sys.maxsize))
        reached = mapped.tests_of({(place.path, place.line) for place in places})
        self._tests = [reached[place.path, place.line] for place in places]
        if mapped.name != commit.name:
            existing = _collect(self._clean)
            self._tests = [_matching(tests, existing) for tests in self._tests]

    def tests(self, index: int, log: Log) -> list[str]:
        """Return the tests of a mutant, without those that always fail."""
        return [test for test in self._tests[index] if not log.fails(self.commit.name, test)]

    @contextmanager
    def tree(self) -> Iterator[Path]:
        """Lend the path of an unused copy of the commit."""
        try:
            tree = self._trees.get_nowait()
        except Empty:
            tree = self.commit.folder / f"job-{next(self._numbers)}"
            shutil.rmtree(tree, ignore_errors=True)
            # `cp -p` keeps file times, so that bytecode remains valid. It runs in a separate
            # process, because copies by several threads would block each other.
            subprocess.run(["cp", "-Rp", self._clean, tree], check=True)
        try:
            yield tree
        finally:
            self._trees.put(tree)


def judge(sides: Sequence[Side], settings: Settings, log: Log) -> list[list[Outcome]]:
    """Run the tests of each mutant in each commit, and return the outcomes of each commit.

    A test that fails without the mutant as well does not count: it is left out, and the mutants
    that it seemed to kill are tried again.
    """

    def run(item: tuple[Side, int]) -> None:
        """Try one mutant, and log the outcome."""
        side, index = item
        mutant = side.mutants[index]
        if time.monotonic() > settings.end:
            return
        tests = side.tests(index, log)
        with side.tree() as tree:
            outcome = _try(side.commit.name, mutant, tests, tree, settings)
        log.add(outcome)
        sign = {KILLED: ".", TIMED_OUT: "t", SURVIVED: "S", UNREACHED: "u"}[outcome.result]
        print(sign, end="", file=sys.stderr, flush=True)

    def check(item: tuple[Side, list[str]]) -> None:
        """Log which of some tests fail without a mutant."""
        side, tests = item
        with side.tree() as tree:
            failing = _failing(tests, tree, settings)
        for test in tests:
            log.add_test(side.commit.name, test, test in failing)

    def results() -> list[list[Outcome]]:
        """Return the outcome of each mutant, for each side."""
        return [[log.outcome(side.commit.name, m) for m in side.mutants] for side in sides]

    with ThreadPoolExecutor(settings.jobs) as pool:
        while True:
            pending = [
                (side, index)
                for index in range(max(len(side.mutants) for side in sides))
                for side in sides
                if index < len(side.mutants)
                and log.outcome(side.commit.name, side.mutants[index]).result == NOT_RUN
            ]
            if not pending or time.monotonic() > settings.end:
                break
            list(pool.map(run, pending))
            killers = [(side, log.untried_killers(side.commit.name)) for side in sides]
            parts = [
                (side, tests[start : start + _KILLERS])
                for side, tests in killers
                for start in range(0, len(tests), _KILLERS)
            ]
            list(pool.map(check, parts))
    print(file=sys.stderr)
    return results()


_KILLERS = 8
"""How many tests a process tries without a mutant: starting one takes as long as some of them."""


def _try(
    commit: str, mutant: Mutant, tests: Sequence[str], tree: Path, settings: Settings
) -> Outcome:
    """Return the outcome of the tests of one mutant."""
    if not tests:
        return Outcome(commit, mutant, UNREACHED, 0)
    path = tree / mutant.path
    original, times = path.read_text(encoding="utf-8"), path.stat()
    start = time.monotonic()
    try:
        path.write_text(mutant.apply_to(original), encoding="utf-8")
        # Python detects outdated bytecode by the file time in seconds, so each mutant gets a
        # different time.
        stamp = int(times.st_mtime) + 1000 + mutant.line * 1000 + mutant.column
        os.utime(path, (stamp, stamp))
        code, output = _run_tests(tests[: settings.limit], tree, settings.timeout, "-x")
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ran, seconds = min(len(tests), settings.limit), round(time.monotonic() - start, 1)
    if code is None:
        return Outcome(commit, mutant, TIMED_OUT, ran, seconds=seconds)
    if code in (0, 5):
        return Outcome(commit, mutant, SURVIVED, ran, seconds=seconds)
    killer = _FAILURE.search(output)
    return Outcome(commit, mutant, KILLED, ran, killer.group(1) if killer else "", seconds)


def _run_tests(
    tests: Sequence[str], tree: Path, timeout: float, *options: str
) -> tuple[int | None, str]:
    """Return pytest's exit code, None if it ran past the time limit, and its output."""
    names = tree / "selected-tests.txt"
    names.write_text("\n".join(tests), encoding="utf-8")
    process = subprocess.Popen(
        [*_pytest("-p", "no:xdist", "-rfE", *options), f"@{names}"],
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _failing(tests: Sequence[str], tree: Path, settings: Settings) -> set[str]:
    """Return the tests that fail without a mutant."""
    if not tests:
        return set()
    _, output = _run_tests(tests, tree, 20 * settings.timeout)
    return set(_FAILURE.findall(output)) & set(tests)


def _collect(tree: Path) -> list[str]:
    """Return the names of all tests of a commit."""
    run = subprocess.run(
        [*_pytest("-p", "no:xdist", "--collect-only"), "tests"],
        cwd=tree,
        env=_environment(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in run.stdout.splitlines() if "::" in line and not line.startswith(" ")]


def _matching(tests: Sequence[str], existing: Sequence[str]) -> list[str]:
    """Return the existing tests with these names; for other parameters, the whole function."""
    present = set(existing)
    functions: dict[str, list[str]] = {}
    for test in existing:
        functions.setdefault(test.partition("[")[0], []).append(test)
    matching: dict[str, None] = {}
    for test in tests:
        candidates = [test] if test in present else functions.get(test.partition("[")[0], [])
        matching.update(dict.fromkeys(candidates))
    return list(matching)


def _copy(source: Path, target: Path) -> Path:
    """Copy a tree with its file times, so that bytecode remains valid; return the copy."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target, symlinks=True))


def _compile_tree(tree: Path) -> Path:
    """Compile the package of a copy in advance, and return the copy."""
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", PACKAGE]
    subprocess.run(command, cwd=tree, env=_environment(tree), check=False)
    return tree


def _pytest(*options: str) -> list[str]:
    """Return the command that runs pytest with some options."""
    return [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", *options]


def _environment(tree: Path) -> dict[str, str]:
    """Return variables with which every process imports the copy, and stores bytecode in it."""
    left_out = {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "POLYGRAPHY_UPDATE_GOLDEN"}
    environment = {k: v for k, v in os.environ.items() if k not in left_out}
    path = os.pathsep.join(filter(None, [str(tree), environment.get("PYTHONPATH")]))
    return environment | {"PYTHONPATH": path, "COLUMNS": "500"}


def _json_lines(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the rows of files with a JSON object per line."""
    for path in sorted(paths):
        for line in path.read_text(encoding="utf-8").splitlines():
            # A killed process may have written only a part of its last line.
            with suppress(json.JSONDecodeError):
                yield json.loads(line)


def _git(*words: str) -> str:
    """Return the output of a Git command; exit with its message if it fails."""
    run = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr.strip())
    return run.stdout


def _report(title: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Print the counts and survivors of a commit, and return them with all outcomes."""
    counts = Counter(outcome.result for outcome in outcomes)
    print(f"{title}: {len(outcomes)} mutants:", ", ".join(f"{n} {r}" for r, n in counts.items()))
    for outcome in outcomes:
        if outcome.result in (SURVIVED, UNREACHED):
            mutant = outcome.mutant
            place = f"{mutant.path}:{mutant.line}"
            print(f"  {outcome.result}: {place}: {mutant.kind} ({outcome.tests} tests)")
            print(f"    {_abridge(mutant.before)}  ->  {_abridge(mutant.after)}")
    return {"commit": title, "counts": dict(counts), "outcomes": [asdict(o) for o in outcomes]}


def _compare(before: Sequence[Outcome], after: Sequence[Outcome]) -> None:
    """Print the mutants that the tests of one commit alone detect."""
    pairs = [
        (a, b) for a, b in zip(before, after, strict=True) if NOT_RUN not in (a.result, b.result)
    ]
    detected = (KILLED, TIMED_OUT)
    print(f"{len(pairs)} mutants ran in both commits")
    for title, losing, gaining in (("before", 1, 0), ("after", 0, 1)):
        ones = [
            p for p in pairs if p[gaining].result in detected and p[losing].result not in detected
        ]
        print(f"detected {title} alone: {len(ones)}")
        for pair in ones:
            mutant = pair[gaining].mutant
            print(f"  {mutant.path}:{mutant.line}: {mutant.kind}, by {pair[gaining].killer}")
            print(f"    {_abridge(mutant.before)}  ->  {_abridge(mutant.after)}")


def _abridge(text: str) -> str:
    """Return a text on one line of at most 100 characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= 100 else joined[:97] + "..."


def main() -> int:
    """Draw mutants, run the tests of one or two commits, and print the survivors."""
    parser = argparse.ArgumentParser(description="Count the mutants that the tests do not notice.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--commit", default="HEAD", help="the commit (or folder) to change")
    parser.add_argument("--before", help="another commit, for the lines that both have")
    parser.add_argument("--only", choices=("before", "commit"), help="run the tests of one of both")
    parser.add_argument("--map-of", help="the commit whose record says which tests reach a line")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one mutant")
    parser.add_argument("--limit", type=int, default=150, help="tests of one mutant, the fastest")
    parser.add_argument("--seconds", type=float, help="try no further mutant after this time")
    parser.add_argument(
        "--select", default="not packaging", help="marks of tests, as for pytest -m"
    )
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files or folders of tests")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants")
    parser.add_argument(
        "--log", type=Path, help="append each outcome to this file, and do not repeat those in it"
    )
    parser.add_argument(
        "--only-map", action="store_true", help="end after recording which tests reach the lines"
    )
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    arguments = parser.parse_args()

    end = time.monotonic() + (arguments.seconds or float("inf"))
    settings = Settings(arguments.jobs, arguments.timeout, arguments.limit, end)
    commits = [
        Commit(revision, arguments.folder.resolve())
        for revision in (arguments.before, arguments.commit)
        if revision
    ]
    sources = [commit.sources() for commit in commits]
    drawn = draw(sources[0], arguments.seed, arguments.count)
    mutants = [drawn] * len(commits)
    if arguments.before:
        followed = [follow([mutant], *sources) for mutant in drawn]
        mutants = [
            [mutant for mutant, copies in zip(drawn, followed) if copies],
            [copy for copies in followed for copy in copies],
        ]
        print(f"{len(mutants[1])} of {len(drawn)} lines exist in both commits")
    chosen = [
        (commit, changed)
        for commit, changed in zip(commits, mutants)
        if not arguments.only or commit is commits[-1 if arguments.only == "commit" else 0]
    ]
    recorded: dict[str, tuple[Commit, Sequence[Mutant]]] = {}
    for commit, changed in chosen:
        recorded[commit.name] = commit, changed
        if arguments.map_of:
            mapped = Commit(arguments.map_of, arguments.folder.resolve())
            # The record of the first commit names its lines.
            places = mutants[0] if mapped.name == commits[0].name else changed
            recorded[commit.name] = mapped, places
    _map_tests(recorded.values(), arguments.jobs, "-m", arguments.select, *arguments.tests)
    if arguments.only_map:
        return 0
    sides = [Side(commit, changed, *recorded[commit.name]) for commit, changed in chosen]
    outcomes = judge(sides, settings, Log(arguments.log))
    reports = [_report(side.commit.name[:12], results) for side, results in zip(sides, outcomes)]
    if len(outcomes) == 2:
        _compare(*outcomes)
    if arguments.json:
        document = {"seed": arguments.seed, "count": arguments.count, "commits": reports}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def _map_tests(
    recorded: Iterable[tuple[Commit, Sequence[Mutant]]], jobs: int, *selected: str
) -> None:
    """Record which tests reach the places, of several commits at the same time."""
    commits: dict[str, Commit] = {}
    lines: dict[str, set[tuple[str, int]]] = {}
    for commit, places in recorded:
        commits[commit.name] = commit
        lines.setdefault(commit.name, set()).update((place.path, place.line) for place in places)
    share = max(1, jobs // len(commits))
    with ThreadPoolExecutor(len(commits)) as pool:
        runs = [
            pool.submit(commit.map_tests, lines[name], share, *selected)
            for name, commit in commits.items()
        ]
        for run in runs:
            run.result()


if __name__ == "__main__":
    sys.exit(main())
