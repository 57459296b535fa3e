"""Count the mutants of the product that its tests do not notice.

    make mutants BIN=.venv-test/bin    # 30 mutants of the commit that is checked out
    python lab/mutants.py --seed 7 --count 300 --json mutants.json
    python lab/mutants.py --seed 7 --count 300 --before 5eaf8dd7    # with the tests of both
    python lab/mutants.py --commit /a/tree --before /a/tree/before    # folders instead of commits

A mutant is the product with one expression changed: a comparison flipped, a number off by one, a
condition negated, a returned value replaced or a call dropped. Lines are drawn by the seed, and one
change of each. Then the tests that reach the line run, in a process with a time limit, until one
fails. A mutant that survives shows a line that no test checks, or a change that means the same.

Which tests reach which lines is recorded once for each commit, by a run of all tests (`--map-of`
takes the record of another commit: tests are matched by name). Records and copies of commits are
kept in the folder `.mutants`; nothing outside it is written, so this may be killed at any time.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
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
    return list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))


@dataclass(frozen=True)
class Outcome:
    """What the tests of a commit said about a mutant."""

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
    """Yield the kind of a change, what it replaces, and with what."""
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

    @property
    def is_mapped(self) -> bool:
        """Whether it is on record which tests reach which lines."""
        return (self.folder / "map" / "complete").exists()

    def map_tests(self, jobs: int, *selected: str) -> None:
        """Run the tests that words of pytest select once, and record which lines each reaches."""
        if self.is_mapped:
            return
        if not hasattr(sys, "monitoring"):
            raise SystemExit("recording which tests reach which lines needs Python 3.12 or later")
        folder = self.folder / "map"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tree = _compiled(self.copy("mapped"))
        shutil.copy(mutants_recorder.__file__, tree / "sitecustomize.py")
        variables = {
            mutants_recorder.FOLDER: str(folder),
            mutants_recorder.ROOT: str(tree / PACKAGE),
        }
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

    def tests_of(self, lines: set[tuple[str, int]]) -> dict[tuple[str, int], list[str]]:
        """Return the passing tests that reach each of the lines, the fastest first."""
        folder = self.folder / "map"
        seconds: Counter[str] = Counter()
        failed: set[str] = set()
        for path in sorted(folder.glob("ends-*.jsonl")):
            for row in _json_lines(path.read_text(encoding="utf-8").splitlines()):
                seconds[row["test"]] += row["seconds"]
                if row["outcome"] != "passed":
                    failed.add(row["test"])
        wanted: dict[str, set[int]] = {}
        for path_name, line in lines:
            wanted.setdefault(path_name.removeprefix(f"{PACKAGE}/"), set()).add(line)
        tests: dict[tuple[str, int], set[str]] = {line: set() for line in lines}
        for path in sorted(folder.glob("lines-*.gz")):
            with gzip.open(path, "rt") as file:
                for row in _json_lines(_readable(file)):
                    if row["test"] in failed or row["test"] not in seconds:
                        continue
                    for name in wanted.keys() & row["lines"].keys():
                        for line in wanted[name].intersection(row["lines"][name]):
                            tests[f"{PACKAGE}/{name}", line].add(row["test"])
        return {
            line: sorted(names, key=lambda name: (seconds[name], name))
            for line, names in tests.items()
        }


def draw(sources: dict[str, str], seed: int, count: int) -> list[Mutant]:
    """Draw lines by a seed, and one change of each."""
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
    """Return those mutants whose lines another commit has as well, where it has them."""
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


def judge(
    commit: Commit,
    mutants: Sequence[Mutant],
    settings: Settings,
    mapped: Commit,
    places: Sequence[Mutant],
) -> list[Outcome]:
    """Run the tests that reach each mutant, as `mapped` has it on record for the place.

    A test that fails without the mutant as well does not count: it is left out, and the mutants
    that it seemed to kill are tried again.
    """
    reached = mapped.tests_of({(place.path, place.line) for place in places})
    trees: SimpleQueue[Path] = SimpleQueue()
    first = _compiled(commit.copy("job-0"))
    trees.put(first)
    for job in range(1, settings.jobs):
        trees.put(_copy(first, commit.folder / f"job-{job}"))
    existing = None if mapped.name == commit.name else _collect(first)
    excluded: set[str] = set()

    def run(pair: tuple[Mutant, Mutant]) -> Outcome:
        mutant, place = pair
        tests = reached[place.path, place.line]
        tests = _matching(tests, existing) if existing is not None else tests
        tests = [test for test in tests if test not in excluded]
        if time.monotonic() > settings.end:
            return Outcome(mutant, NOT_RUN, 0)
        tree = trees.get()
        try:
            outcome = _try(mutant, tests, tree, settings)
        finally:
            trees.put(tree)
        sign = {KILLED: ".", TIMED_OUT: "t", SURVIVED: "S", UNREACHED: "u"}[outcome.result]
        print(sign, end="", file=sys.stderr, flush=True)
        return outcome

    pairs = list(zip(mutants, places, strict=True))
    outcomes: dict[int, Outcome] = {}
    pending = list(range(len(pairs)))
    with ThreadPoolExecutor(settings.jobs) as pool:
        while pending:
            outcomes.update(zip(pending, pool.map(run, [pairs[i] for i in pending])))
            killers = sorted({outcomes[i].killer for i in pending if outcomes[i].killer})
            failing = _failing(killers, first, settings)
            excluded |= failing
            pending = [i for i in pending if outcomes[i].killer in failing]
    print(file=sys.stderr)
    return [outcomes[i] for i in range(len(pairs))]


def _try(mutant: Mutant, tests: Sequence[str], tree: Path, settings: Settings) -> Outcome:
    if not tests:
        return Outcome(mutant, UNREACHED, 0)
    path = tree / mutant.path
    original, times = path.read_text(encoding="utf-8"), path.stat()
    start = time.monotonic()
    try:
        path.write_text(mutant.apply_to(original), encoding="utf-8")
        # Bytecode is recognized by the second in which its source was written: each has its own.
        stamp = int(times.st_mtime) + 1000 + mutant.line * 1000 + mutant.column
        os.utime(path, (stamp, stamp))
        code, output = _run_tests(tests[: settings.limit], tree, settings.timeout, "-x")
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ran, seconds = min(len(tests), settings.limit), round(time.monotonic() - start, 1)
    if code is None:
        return Outcome(mutant, TIMED_OUT, ran, seconds=seconds)
    if code in (0, 5):
        return Outcome(mutant, SURVIVED, ran, seconds=seconds)
    killer = _FAILURE.search(output)
    return Outcome(mutant, KILLED, ran, killer.group(1) if killer else "", seconds)


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
    """Return those of the tests that fail without a mutant."""
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
    """Return the tests of these names that exist; of a function with other cases, all of them."""
    present = set(existing)
    functions: dict[str, list[str]] = {}
    for test in existing:
        functions.setdefault(test.partition("[")[0], []).append(test)
    matching: dict[str, None] = {}
    for test in tests:
        found = [test] if test in present else functions.get(test.partition("[")[0], [])
        matching.update(dict.fromkeys(found))
    return list(matching)


def _copy(source: Path, target: Path) -> Path:
    """Copy a tree, with the times of its files: bytecode remains valid."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target, symlinks=True))


def _compiled(tree: Path) -> Path:
    """Compile the product of a copy, so that no mutant waits for it."""
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", PACKAGE]
    subprocess.run(command, cwd=tree, env=_environment(tree), check=False)
    return tree


def _pytest(*options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", *options]


def _environment(tree: Path) -> dict[str, str]:
    """Return variables with which every process imports the copy, and stores bytecode in it."""
    left_out = {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "POLYGRAPHY_UPDATE_GOLDEN"}
    environment = {k: v for k, v in os.environ.items() if k not in left_out}
    path = os.pathsep.join(filter(None, [str(tree), environment.get("PYTHONPATH")]))
    return environment | {"PYTHONPATH": path, "COLUMNS": "500"}


def _readable(lines: Iterable[str]) -> Iterator[str]:
    with suppress(EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError):
        yield from lines  # Of a process that was killed as far as it came.


def _json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with suppress(
            json.JSONDecodeError
        ):  # A process that was killed wrote half of its last line.
            yield json.loads(line)


def _git(*words: str) -> str:
    run = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr.strip())
    return run.stdout


def _report(title: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    counts = Counter(outcome.result for outcome in outcomes)
    print(f"{title}: {len(outcomes)} mutants:", ", ".join(f"{n} {r}" for r, n in counts.items()))
    for outcome in outcomes:
        if outcome.result in (SURVIVED, UNREACHED):
            mutant = outcome.mutant
            place = f"{mutant.path}:{mutant.line}"
            print(f"  {outcome.result}: {place}: {mutant.kind} ({outcome.tests} tests)")
            print(f"    {_abridged(mutant.before)}  ->  {_abridged(mutant.after)}")
    return {"commit": title, "counts": dict(counts), "outcomes": [asdict(o) for o in outcomes]}


def _abridged(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 100 else joined[:97] + "..."


def main() -> int:
    """Draw mutants, run the tests of one commit or two, and print what survives."""
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
    reports = []
    for commit, changed in zip(commits, mutants):
        if arguments.only and commit is not commits[-1 if arguments.only == "commit" else 0]:
            continue
        mapped, places = commit, changed
        if arguments.map_of:
            mapped = Commit(arguments.map_of, arguments.folder.resolve())
            # The record of the first commit names its lines.
            places = mutants[0] if mapped.name == commits[0].name else changed
        mapped.map_tests(arguments.jobs, "-m", arguments.select, *arguments.tests)
        reports.append(_report(commit.name[:12], judge(commit, changed, settings, mapped, places)))
    if arguments.json:
        document = {"seed": arguments.seed, "count": arguments.count, "commits": reports}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
