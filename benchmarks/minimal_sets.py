"""How many checks a minimal set of nodes takes, with and without a ranking of the nodes.

python benchmarks/minimal_sets.py

5 culprits are drawn among 1,301 nodes, 100 times. In a ranking, culprits are near the top: their
places are drawn from an exponential distribution with the given mean. A check of a real model is a
run of it, so this number is the cost of `debug precision --mode minimal` and of `diagnose
--fp-to-fp16`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import mean

from polygraphy.domain.search import Outcome, smallest_good_set

NODES, CULPRITS, SEEDS = 1301, 5, 100
MEAN_PLACES = (0, 20, 50, 100)


def checks(order: Sequence[int], culprits: set[int], *, is_ranked: bool) -> int:
    """Return the number of checks until the culprits are found."""
    count = 0

    def test(chosen: Sequence[int]) -> Outcome:
        """Count a check, and return GOOD if all culprits are in the set."""
        nonlocal count
        count += 1
        return Outcome.GOOD if culprits <= set(chosen) else Outcome.BAD

    smallest = smallest_good_set(order, test, is_ranked=is_ranked)
    assert smallest is not None
    assert set(smallest) == culprits
    return count


def ranking(draw: random.Random, culprits: set[int], mean_place: float) -> list[int]:
    """Return the nodes in a random order, in which culprits are near the top."""
    other_nodes = [node for node in range(NODES) if node not in culprits]
    draw.shuffle(other_nodes)
    places = {
        node: min(NODES, int(draw.expovariate(1 / mean_place))) if mean_place else place
        for place, node in enumerate(culprits)
    }
    for node, place in sorted(places.items(), key=lambda pair: pair[1]):
        other_nodes.insert(place, node)
    return other_nodes


def report(label: str, counts: Sequence[int]) -> None:
    """Print a row of the table."""
    print(f"{label:<34} mean {mean(counts):6.2f}   most {max(counts)}")


def main() -> None:
    """Measure, and print the table."""
    plain = []
    ranked: dict[int, list[int]] = {place: [] for place in MEAN_PLACES}
    for seed in range(SEEDS):
        draw = random.Random(seed)
        culprits = set(draw.sample(range(NODES), CULPRITS))
        plain.append(checks(range(NODES), culprits, is_ranked=False))
        for place, counts in ranked.items():
            counts.append(checks(ranking(draw, culprits, place), culprits, is_ranked=True))
    report("no ranking", plain)
    for place, counts in ranked.items():
        report(f"ranked, culprits near place {place}", counts)


if __name__ == "__main__":
    main()
