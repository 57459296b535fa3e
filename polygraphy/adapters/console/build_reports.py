"""Reports about how engines are, or can be, built: each becomes log messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polygraphy.domain.checks.capability import SupportReport
from polygraphy.domain.tactics.tactics import Algorithm, TacticReplay
from polygraphy.logger import G_LOGGER

_INDENT = "    "


class LogBuildReports:
    """Writes reports to the log."""

    def replay(self, replay: TacticReplay) -> None:
        G_LOGGER.info(str(replay) or "The replay holds no layers.")

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        if not difference:
            G_LOGGER.info(f"{name0} and {name1} hold the same tactics.")
            return
        G_LOGGER.info(f"{len(difference)} layer(s) differ between {name0} and {name1}:")
        width = max(len(name0), len(name1))
        for name, (choice0, choice1) in difference.items():
            G_LOGGER.info(
                f"Layer: {name}\n"
                f"{_INDENT}{name0:{width}} | {_choice(choice0)}\n"
                f"{_INDENT}{name1:{width}} | {_choice(choice1)}"
            )

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        G_LOGGER.info(f"Loaded {good} good tactic replays.")
        G_LOGGER.info(f"Loaded {bad} bad tactic replays.")
        if not suspicious:
            G_LOGGER.info(
                "Could not determine potentially bad tactics. Try generating more tactic replay"
                " files?"
            )
            return
        G_LOGGER.info("Found potentially bad tactics:")
        for name, algorithms in suspicious.items():
            G_LOGGER.info(f"Layer: {name}\n{_INDENT}Algorithms: {[str(one) for one in algorithms]}")

    def support(self, report: SupportReport) -> None:
        G_LOGGER.info("\n".join(_support_lines(report)))


def _choice(algorithm: Algorithm | None) -> str:
    return "not there" if algorithm is None else f"Algorithm: {algorithm}"


def _support_lines(report: SupportReport) -> Iterator[str]:
    if report.is_supported:
        yield f"All {len(report.nodes)} nodes are supported."
        return
    yield from report.table().splitlines()
