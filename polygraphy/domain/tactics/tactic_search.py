"""Which tactics may be to blame for builds that fail now and then."""

from __future__ import annotations

from collections.abc import Iterable

from polygraphy.domain.tactics.tactics import Algorithm, TacticReplay


def suspicious_tactics(
    good: Iterable[TacticReplay], bad: Iterable[TacticReplay]
) -> dict[str, tuple[Algorithm, ...]]:
    """Return, per layer, the tactics that builds which failed chose and no build that passed did.

    Layers and tactics are in the order in which the replays that failed hold them; each tactic is
    listed once.
    """
    harmless: dict[str, set[Algorithm]] = {}
    for replay in good:
        for name, algorithm in replay.items():
            harmless.setdefault(name, set()).add(algorithm)
    found: dict[str, dict[Algorithm, None]] = {}
    for replay in bad:
        for name, algorithm in replay.items():
            if algorithm not in harmless.get(name, ()):
                found.setdefault(name, {})[algorithm] = None
    return {name: tuple(algorithms) for name, algorithms in found.items()}
