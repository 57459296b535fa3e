"""Looks into tactic replays: shows one, compares two, or finds out which tactics may be bad."""

from __future__ import annotations

from posixpath import join

from polygraphy.binding import resolve
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.tactics import TacticReplay, suspicious_tactics
from polygraphy.ports.reporting import Reports
from polygraphy.ports.storage import load_tactic_replays, path_exists


def inspect_tactics(path: str) -> None:
    """Show which tactic a build chose for each layer.

    Args:
        path: a tactic replay.

    Raises:
        FileError: it is missing, damaged, or something else.
    """
    replay = _only(path)
    resolve(Reports).replay(replay)


def compare_tactics(path0: str, path1: str) -> None:
    """Show the layers for which two builds chose different tactics.

    Args:
        path0: a tactic replay.
        path1: another one.

    Raises:
        FileError: one of them is missing, damaged, or something else.
    """
    replay0, replay1 = _only(path0), _only(path1)
    resolve(Reports).replays_compared(path0, path1, replay0.difference(replay1))


def find_bad_tactics(
    dir: str | None = None, good: str | None = None, bad: str | None = None
) -> None:
    """Show the tactics that only builds that failed chose.

    Args:
        dir: a folder with the folders ``good`` and ``bad``, which hold replays of builds that
            passed and failed (default: the current one).
        good: a replay, or a folder of such, in place of ``DIR/good``.
        bad: the same of builds that failed.

    Raises:
        FileError: a folder or a file is missing.
        UsageError: `dir` is given although nothing would be read from it.
    """
    if dir is not None and good is not None and bad is not None:
        raise UsageError(
            f"Nothing would be read from {dir}: good and bad replays are both named apart.",
            hint="Leave out the folder, or one of the two.",
        )
    good_replays = _replays("good", dir, good)
    bad_replays = _replays("bad", dir, bad)
    if good is None and bad is None and good_replays is None and bad_replays is None:
        raise FileError(
            f"There is neither a folder good nor a folder bad in {dir or 'the current folder'}.",
            path=dir,
            hint="Name the folder that holds them with --dir, or each with --good and --bad.",
        )
    passed, failed = good_replays or [], bad_replays or []
    resolve(Reports).bad_tactics(len(passed), len(failed), suspicious_tactics(passed, failed))


def _replays(kind: str, folder: str | None, path: str | None) -> list[TacticReplay] | None:
    """Return the replays of one kind; None where there is no folder for them."""
    if path is not None:
        return load_tactic_replays(path)
    usual = join(folder or "", kind)
    return load_tactic_replays(usual) if path_exists(usual) else None


def _only(path: str) -> TacticReplay:
    replays = load_tactic_replays(path)
    if len(replays) != 1:
        raise FileError(
            f"{path} holds {len(replays)} tactic replays.", path=path, hint="Name a single file."
        )
    return replays[0]
