"""The command `sweep`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from polygraphy.cli.backends.built_in import built_in
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds import Choice, Integer, Number, Text, Texts
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.codegen.source import Source, quoted
from polygraphy.domain.errors import UsageError

if TYPE_CHECKING:
    from polygraphy.domain.sweep.plan import Plan


class Shard(Text):
    """A part of a whole: ``i/n``."""

    metavar = "I/N"

    def parse(self, words: Sequence[str]) -> str:
        from polygraphy.domain.sweep.cells import shard_of

        try:
            shard_of(words[0])
        except UsageError as error:
            raise BadValue(str(error).rstrip(".")) from None
        return words[0]


@option_group
class PlanOptions(Options):
    """Plan: what is run."""

    path: str = option(
        kind=Text("PLAN"),
        reads="Plan",
        help="A TOML file: models, runners, precisions, shapes, seeds, environments, and what is"
        " right. Its paths start at its folder.",
    )
    only: tuple[str, ...] = option(
        "--only",
        kind=Texts("PATTERN"),
        help="Run only the cells whose names, as in 'models/a.onnx onnxrt/fp16', match one of these"
        " patterns, or hold a part that does.",
        feeds="sweep.only",
    )
    dry_run: bool = option("--dry-run", help="List the cells, and run none.", feeds="sweep.dry_run")


@option_group
class EngineOptions(Options):
    """Engine: where cells run, and what each may take."""

    engine: str | None = option(
        "--engine",
        kind=Choice("local", "ray"),
        help="Who runs the cells: local, as processes of this machine; or ray, as tasks of the"
        " cluster that RAY_ADDRESS names, or else of one on this machine. Its hosts share the"
        " folders.",
        feeds="sweep.engine",
    )
    jobs: int | None = option(
        "--jobs",
        kind=Integer(minimum=1),
        help="How many cells run at a time.",
        otherwise="the number of GPUs or, without several of them, of cores",
        feeds="sweep.jobs",
    )
    timeout: float | None = option(
        "--timeout",
        kind=Number(minimum=0),
        help="Seconds that a cell may take; then it is ended, which is what it comes to.",
        feeds="sweep.timeout",
    )
    memory: int | None = option(
        "--memory",
        kind=ByteSize(),
        help="How much memory a cell may have resident, as in 512M or 2G; then it is ended.",
        otherwise="half of what is free, divided by --jobs",
        feeds="sweep.memory",
    )
    shard: str | None = option(
        "--shard",
        kind=Shard(),
        help="Run one of N parts, which share a folder or not; I counts from 1. Each cell is in one"
        " part, whatever the folder has.",
        feeds="sweep.shard",
    )
    times: str | None = option(
        "--times",
        reads="Document",
        needs="--shard",
        help="The JSON document of an earlier sweep, by whose times parts take equally long.",
        feeds="sweep.times",
    )


@option_group
class SweepFolderOptions(Options):
    """Folder: where results are kept."""

    folder: str | None = option(
        "--folder",
        kind=Text("DIR"),
        help="Where results are kept: what is there is not run again.",
        otherwise="beside the plan, with .sweep in place of .toml",
    )
    resume: bool = option(
        "--resume",
        help="Go on with a folder that has results. What cells are compared with is computed again"
        " where that crashed, or ran into a limit.",
        feeds="sweep.resume",
    )


@option_group
class JudgementOptions(Options):
    """Judgement: which failures count, and why they fail."""

    repeat_failed: int | None = option(
        "--repeat-failed",
        kind=Integer(minimum=0),
        help="How often a cell that fails is run again: where verdicts differ, it is flaky.",
        feeds="sweep.repeat_failed",
    )
    baseline: str | None = option(
        "--baseline",
        reads="Document",
        help="The JSON document of an earlier sweep: what fails now and did not is what counts.",
        feeds="sweep.baseline",
    )
    known: str | None = option(
        "--known",
        reads="File of known failures",
        kind=Text("FILE.toml"),
        help="Failures that do not count: [[known]] with cell, its name or a pattern, reason, and until, the"
        " last day on which that holds.",
    )
    strict: bool = option(
        "--strict",
        needs="--known",
        help="Fail also when a known failure passes.",
        feeds="sweep.strict",
    )
    diagnose: bool = option(
        "--diagnose",
        help="Diagnose cells that fail, so that those with one cause are one group. Those that ran"
        " into a limit are left out: their diagnosis would, too.",
        feeds="sweep.diagnose",
    )


class SweepCommand(Command):
    """Run models in several backends, precisions and environments: every combination of a plan,
    each in a process of its own, compared with what is right. Exits with 0 without a new failure,
    with 1 with one, with 3 when no cell could be run, and with 4 when cells neither passed nor
    failed.
    """

    name = "sweep"
    groups = (PlanOptions, EngineOptions, SweepFolderOptions, JudgementOptions)

    def program(self, values: Values) -> Program:
        from polygraphy.domain.sweep.plan import known_of, plan_of

        path, known_path = values[PlanOptions].path, values[JudgementOptions].known
        data, known = _read(path), None
        try:
            plan = plan_of(data, list(built_in()))
            _check_flags(path, plan)
        except UsageError as error:
            raise CommandLineError(f"{path}: {error}") from None
        if known_path is not None:
            try:
                rows = known_of(_read(known_path))
            except UsageError as error:
                raise CommandLineError(f"{known_path}: {error}") from None
            known = [{"cell": one.cell, "reason": one.reason, "until": one.until} for one in rows]
        folder = values[SweepFolderOptions].folder or str(PurePath(path).with_suffix(".sweep"))
        root = str(PurePath(path).parent)
        return Program(
            "sweep.py.j2",
            f"Run the cells of {quoted(path)}.",
            plan=data,
            known=known,
            call=call_of(
                "sweep",
                values,
                Source("PLAN"),
                folder=folder,
                root=None if root == "." else root,
                known=Source("KNOWN") if known else None,
            ),
        )


def _read(path: str) -> Mapping[str, Any]:
    """Return what a TOML file holds, dates as texts."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            found: dict[str, Any] = tomllib.load(stream)
    except OSError as error:
        raise CommandLineError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CommandLineError(f"{path} is no TOML: {error}.") from None
    return {key: _literals(value) for key, value in found.items()}


def _literals(value: Any) -> Any:
    """Return a value without those that have no literal, which are dates and times."""
    if isinstance(value, dict):
        return {key: _literals(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_literals(each) for each in value]
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _check_flags(path: str, plan: Plan) -> None:
    """Refuse flags that `run` does not take, before anything runs."""
    from polygraphy.domain.sweep.cells import cells_of

    seen: set[tuple[str, ...]] = set()
    for cell in cells_of(plan, ["MODEL"]):
        for what, words in ((cell.label, cell.flags), ("reference", cell.asked.flags)):
            if words and words not in seen:
                seen.add(words)
                _check_words(f"{path}, {what}", words)


def _check_words(what: str, words: Sequence[str]) -> None:
    from polygraphy.cli.commands.listing import load
    from polygraphy.cli.declare.option import flags_in
    from polygraphy.cli.parser import parse

    try:
        parse(load("run").extended(flags_in(words)), ["MODEL", *words])
    except CommandLineError as error:
        raise CommandLineError(f"{what}: {error}", "polygraphy run") from None
