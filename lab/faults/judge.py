"""Runs `polygraphy diagnose` on cases and compares what it says with what is to be found."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .case import Case, Culprit
from .environments import ROOT, python

SECONDS = 300
PRODUCT = "POLYGRAPHY_PRODUCT"
"""The environment variable with the checkout whose commands run; this one by default."""
_PATHS = [os.environ.get(PRODUCT) or str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
SURROUNDINGS = {**os.environ, "PYTHONPATH": os.pathsep.join(_PATHS)}
"""Commands are those of this checkout, whichever one the environments were made for."""
NOBODY = {"data", "ill-conditioned", "nondeterminism"}
"""Causes by which neither a backend nor the model is blamed."""
CODES = {"agree": 0, "fault": 1, "ill-conditioned": 1, "inconclusive": 4}


class Score(NamedTuple):
    """How one case went."""

    case: Case
    node: bool
    party: bool
    cause: bool
    rewrite: bool | None
    """None: no pass can be named."""
    innocent: bool
    """Nobody is blamed who has nothing to do with it."""
    code: bool
    seconds: float
    said: str
    """What was said, in a line."""
    fix: bool | None = None
    """Whether the FIX that was printed runs, and what it saves or runs agrees; None: none was."""
    abstains: bool = False
    """It is said that it cannot be told, where only outputs are known."""

    @property
    def right(self) -> bool:
        """Return whether all columns of the score are right."""
        notes = self.node and self.party and self.cause and self.innocent and self.code
        return notes and self.rewrite is not False and self.fix is not False


def scores(folder: Path, cases: Iterable[Case], jobs: int = 1) -> Iterable[Score]:
    """Yield the score of each case, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda case: score(folder, case), cases)


def score(folder: Path, case: Case) -> Score:
    """Diagnose a case, and return its score."""
    start = time.perf_counter()
    line = [python(case.version), "-m", "polygraphy", *case.words]
    try:
        done = subprocess.run(
            line,
            cwd=folder / case.name,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=SURROUNDINGS,
        )
        out, error, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        out, error, code = "", f"not done after {SECONDS} s", -1
    seconds = time.perf_counter() - start
    (folder / case.name / "said.json").write_text(out)
    (folder / case.name / "log.txt").write_text(error)
    try:
        document = json.loads(out)
    except ValueError:
        last = [text for text in (error or out).splitlines() if text.strip()][-1:] or ["nothing"]
        wrong = None if not _names_node(case) else False
        return Score(
            case,
            False,
            False,
            False,
            wrong,
            False,
            False,
            seconds,
            f"exit code {code}: {last[0][:200]}",
        )
    result = compare_culprits(case, document, code, seconds)
    remedies = [culprit.get("remedy") or {} for culprit in document.get("culprits", [])]
    commands = dict.fromkeys(remedy["command"] for remedy in remedies if remedy.get("proven"))
    fixes = [_mends(folder / case.name, case, command) for command in commands if command]
    return result._replace(fix=all(fixes) if fixes else None)


def _mends(folder: Path, case: Case, command: str) -> bool:
    """Return whether a FIX works: run it as printed, in its own folder.

    The command that it runs must agree, the model that it saves must pass the same diagnosis, and
    the model that it converts must match the original.
    """
    if not command.startswith("polygraphy "):
        return True  # The remedy is another release, which the diagnosis has already tried.
    fresh = folder.with_name(f"{folder.name}-fix")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder, fresh)
    interpreter = [python(case.version), "-m"]
    lines = [[*interpreter, *shlex.split(line)] for line in command.split(" && ")]
    last = lines[-1]
    if last[3] in ("surgeon", "convert"):
        words = [*case.words]
        words[1] = last[last.index("-o") + 1]
        if last[3] == "convert":
            words = ["diagnose", words[1], "--onnxrt", "--reference", last[4]]
        lines.append([*interpreter, "polygraphy", *words])
    done = None
    for line in lines:
        done = subprocess.run(
            line, cwd=fresh, capture_output=True, text=True, check=False, env=SURROUNDINGS
        )
        if done.returncode:
            (folder / "fix.txt").write_text(f"{shlex.join(line)}\n{done.stdout}{done.stderr}")
            return False
    shutil.rmtree(fresh)
    return True


def _names_node(case: Case) -> bool:
    """Return whether the fault of a case is a rewrite of nodes by a backend."""
    return any(culprit.rewrites for culprit in case.culprits)


def compare_culprits(case: Case, document: dict[str, Any], code: int, seconds: float) -> Score:
    """Return the score of a diagnosis: its culprits compared with the planted ones."""
    verdict, culprits = document.get("verdict"), document.get("culprits", [])
    notes = CODES.get(str(verdict)) == code
    full_name = f"{verdict}: " + "; ".join(_describe(culprit) for culprit in culprits)
    if not case.culprits:
        blamed = [culprit for culprit in culprits if culprit.get("cause") not in NOBODY]
        clean = (not blamed and verdict != "fault") or bool(culprits and not blamed)
        return Score(case, clean, clean, clean, None, clean, notes, seconds, full_name)
    matched = [_match(culprit, culprits) for culprit in case.culprits]
    pairs = list(zip(case.culprits, matched))
    allowed = {name for culprit in case.culprits for name in (*culprit.nodes, *culprit.beside)}
    if any(not culprit.nodes for culprit in case.culprits):
        # The case names no node, so any single culprit is correct.
        innocent = len(culprits) == 1
    else:
        innocent = all(_nodes(culprit) <= allowed for culprit in culprits)
    rewrite = None
    if _names_node(case):
        rewrite = all(
            match is not None
            and any(name in str(match.get("rewrite")) for name in culprit.rewrites)
            for culprit, match in pairs
            if culprit.rewrites
        )
    return Score(
        case,
        node=all(match is not None for match in matched),
        party=all(
            (match or _first(culprits)).get("party") in culprit.party for culprit, match in pairs
        ),
        cause=all(
            not culprit.causes or (match or _first(culprits)).get("cause") in culprit.causes
            for culprit, match in pairs
        ),
        rewrite=rewrite,
        innocent=innocent,
        code=notes and code == 1,
        seconds=seconds,
        said=full_name,
        abstains=verdict == "inconclusive" and code == CODES["inconclusive"] and case.is_vague,
    )


def _first(culprits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first culprit, whose party and cause count even if its node is wrong."""
    return culprits[0] if culprits else {}


def _match(culprit: Culprit, culprits: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the culprit of the report that is the planted one, or None."""
    for candidate in culprits:
        nodes = _nodes(candidate)
        is_it = nodes & {*culprit.nodes} and nodes <= {*culprit.nodes, *culprit.beside}
        is_there = not culprit.lines or _line(candidate) in culprit.lines
        if is_there and (is_it or not culprit.nodes):
            return candidate
    return None


def _nodes(culprit: dict[str, Any]) -> set[str]:
    """Return the names of the nodes of a culprit; for a state without a node, the tensor."""
    nodes = set(culprit.get("nodes", ()))
    return nodes or ({str(culprit["tensor"])} if culprit.get("tensor") else set())


def _line(culprit: dict[str, Any]) -> int:
    """Return the line of the program that a culprit names; 0 for none."""
    line = str(culprit.get("origin")).partition(":")[2].partition(" ")[0]
    return int(line) if line.isdigit() else 0


def _describe(culprit: dict[str, Any]) -> str:
    """Return the nodes, party, cause and rewrite of a culprit as one line."""
    words = (culprit.get(key) for key in ("nodes", "party", "cause", "rewrite", "origin"))
    return " ".join(str(word) for word in words if word)
