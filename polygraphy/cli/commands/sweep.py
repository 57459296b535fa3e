"""The command `sweep`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from polygraphy.cli.backends.built_in import backends_by_name
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds import Choice, Integer, Number, OptionalInteger, Text, Texts
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.runners import MOST_RUNS, USUAL_RUNS
from polygraphy.codegen.source import Source, quote_word
from polygraphy.domain.errors import UsageError

if TYPE_CHECKING:
    from polygraphy.domain.sweep.plan import Plan


class Shard(Text):
    """A part of all cells: ``i/n``."""

    metavar = "I/N"

    def parse(self, words: Sequence[str]) -> str:
        """Return the word, checked as number and count of a shard."""
        from polygraphy.domain.sweep.cells import shard_of

        try:
            shard_of(words[0])
        except UsageError as error:
            raise BadValue(str(error).rstrip(".")) from None
        return words[0]


@option_group
class PlanOptions(Options):
    """Plan: the cells to run."""

    path: str = option(
        kind=Text("PLAN"),
        reads="Plan",
        help="TOML file with models, runners, precisions, shapes, seeds, environments and"
        " references. Paths are relative to its folder.",
    )
    only: tuple[str, ...] = option(
        "--only",
        kind=Texts("PATTERN"),
        help="Names of the cells to run, as in 'models/a.onnx onnxrt/fp16': patterns of the full"
        " name or of a part of it.",
        feeds="sweep.only",
    )
    dry_run: bool = option(
        "--dry-run", help="List the cells without running them.", feeds="sweep.dry_run"
    )


@option_group
class EngineOptions(Options):
    """Engine: where cells run, and their limits."""

    engine: str | None = option(
        "--engine",
        kind=Choice("local", "ray"),
        help="Executor of the cells: local for processes on this machine, ray for tasks of a"
        " cluster. Ray uses the cluster at RAY_ADDRESS; if that is not set, it starts a cluster on"
        " this machine. The hosts of a cluster must share the folders.",
        feeds="sweep.engine",
    )
    jobs: int | None = option(
        "--jobs",
        kind=Integer(minimum=1),
        help="Number of cells to run in parallel.",
        otherwise="the number of GPUs if there are several, else the number of cores",
        feeds="sweep.jobs",
    )
    timeout: float | None = option(
        "--timeout",
        kind=Number(minimum=0),
        help="Time limit for one cell, in seconds. A cell that runs longer is stopped and marked"
        " as a timeout.",
        feeds="sweep.timeout",
    )
    memory: int | None = option(
        "--memory",
        kind=ByteSize(),
        help="Memory limit (RSS) for one cell, as in 512M or 2G. A cell that uses more is stopped.",
        otherwise="half of the free memory, divided by --jobs",
        feeds="sweep.memory",
    )
    shard: str | None = option(
        "--shard",
        kind=Shard(),
        help="Part I of N to run, counted from 1, with or without a shared folder. Each cell"
        " belongs to exactly one part.",
        feeds="sweep.shard",
    )
    times: str | None = option(
        "--times",
        reads="Document",
        needs="--shard",
        help="JSON document of an earlier sweep, whose cell times balance the parts of --shard.",
        feeds="sweep.times",
    )


@option_group
class SweepFolderOptions(Options):
    """Folder: where to keep results."""

    folder: str | None = option(
        "--folder",
        kind=Text("DIR"),
        help="Folder for the results. Cells with a result in this folder are not run again.",
        otherwise="next to the plan, with .sweep in place of .toml",
    )
    resume: bool = option(
        "--resume",
        help="Continue in a folder that has results. References that crashed or exceeded a limit"
        " are computed again.",
        feeds="sweep.resume",
    )


@option_group
class JudgmentOptions(Options):
    """Judgment: which failures count, and their causes."""

    repeat_failed: int | None = option(
        "--repeat-failed",
        kind=Integer(minimum=0),
        help="Number of retries for a failed cell; a cell with different verdicts is marked as"
        " flaky.",
        feeds="sweep.repeat_failed",
    )
    baseline: str | None = option(
        "--baseline",
        reads="Document",
        help="JSON document of an earlier sweep; only new failures count.",
        feeds="sweep.baseline",
    )
    profile: int | None = option(
        "--profile",
        kind=OptionalInteger(USUAL_RUNS, 1, MOST_RUNS),
        help="Profile N runs of each cell that ran, one cell at a time, and keep the profiles in"
        " the folder. If --baseline is set, list the nodes that became slower.",
        otherwise="10 runs",
        feeds="sweep.profile",
    )
    known: str | None = option(
        "--known",
        reads="File of known failures",
        kind=Text("FILE.toml"),
        help="File with known failures, which do not count. A [[known]] table has cell (a name"
        " or a pattern), reason, and until (the last day on which the failure is accepted).",
    )
    strict: bool = option(
        "--strict",
        needs="--known",
        help="Fail if a known failure passes.",
        feeds="sweep.strict",
    )
    diagnose: bool = option(
        "--diagnose",
        help="Diagnose failed cells, and group the cells that share a cause. Cells that exceeded"
        " a limit are skipped, because their diagnosis would exceed that limit.",
        feeds="sweep.diagnose",
    )


class SweepCommand(Command):
    """Run models in several backends, precisions and environments: every combination in a plan
    runs in its own process and is compared with the reference. Exits with 0 if nothing new
    fails, with 1 if something does, with 3 if no cell could run, and with 4 if cells neither
    passed nor failed.
    """

    name = "sweep"
    groups = (PlanOptions, EngineOptions, SweepFolderOptions, JudgmentOptions)

    def program(self, values: Values) -> Program:
        """Return the program that runs the sweep."""
        from polygraphy.domain.sweep.plan import plan_of, read_known_failures

        path, known_path = values[PlanOptions].path, values[JudgmentOptions].known
        data, known_rows = _read(path), None
        try:
            plan = plan_of(data, list(backends_by_name()))
            _check_flags(path, plan)
        except UsageError as error:
            raise CommandLineError(f"{path}: {error}") from None
        if known_path is not None:
            try:
                rows = read_known_failures(_read(known_path))
            except UsageError as error:
                raise CommandLineError(f"{known_path}: {error}") from None
            known_rows = [
                {"cell": row.cell, "reason": row.reason, "until": row.until} for row in rows
            ]
        folder = values[SweepFolderOptions].folder or str(PurePath(path).with_suffix(".sweep"))
        root = str(PurePath(path).parent)
        return Program(
            "sweep.py.j2",
            f"Run the cells of {quote_word(path)}.",
            plan=data,
            known=known_rows,
            call=call_of(
                "sweep",
                values,
                Source("PLAN"),
                folder=folder,
                root=None if root == "." else root,
                known=Source("KNOWN") if known_rows else None,
            ),
        )


def _read(path: str) -> Mapping[str, Any]:
    """Return the content of a TOML file, with dates as text."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    if Path(path).is_char_device():  # Some devices, such as /dev/zero, never end.
        raise CommandLineError(f"{path} is a device. Use the path of a file.")
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            plan: dict[str, Any] = tomllib.load(stream)
    except FileNotFoundError:
        raise CommandLineError(f"Plan {path} does not exist.") from None
    except OSError as error:
        raise CommandLineError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise CommandLineError(f"{path} is not a TOML file: {error}.") from None
    return {key: _without_dates(value) for key, value in plan.items()}


def _without_dates(value: Any) -> Any:
    """Return a value without dates and times, which have no literal in a program."""
    if isinstance(value, dict):
        return {key: _without_dates(value) for key, value in value.items()}
    if isinstance(value, list):
        return [_without_dates(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _check_flags(path: str, plan: Plan) -> None:
    """Raise CommandLineError for flags in a plan that `run` does not have."""
    from polygraphy.domain.sweep.cells import cells_of

    seen_pairs: set[tuple[str, ...]] = set()
    for cell in cells_of(plan, ["MODEL"]):
        for name, words in ((cell.label, cell.flags), ("reference", cell.asked.flags)):
            if words and words not in seen_pairs:
                seen_pairs.add(words)
                _check_words(f"{path}, {name}", words)


def _check_words(what: str, words: Sequence[str]) -> None:
    """Raise CommandLineError if `run` does not accept some words."""
    from polygraphy.cli.commands.listing import load_command
    from polygraphy.cli.declare.option import flags_in
    from polygraphy.cli.parser import parse

    run = load_command("run").extend(flags_in(words))
    try:
        parse(run, ["MODEL", *words])
    except CommandLineError as error:
        raise CommandLineError(f"{what}: {error}", "polygraphy run") from None
    # The plan checks complete option names, and would miss abbreviations.
    flags = {flag for group in run.groups for row in run.options_of(group) for flag in row.flags}
    for flag in (word.partition("=")[0] for word in words):
        whole_flags = [
            known_flag
            for known_flag in flags
            if flag.startswith("--") and known_flag.startswith(flag)
        ]
        if whole_flags and flag not in flags:
            raise CommandLineError(f"{what}: write {flag} in full, as {min(whole_flags)}.")
