"""A quantized model with a switch at each site, and what each site is expected to lose."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf

import numpy as np

from polygraphy.application.diagnose.case import Feed, Values
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.quantization.losses import SiteLoss
from polygraphy.domain.quantization.powers import MeasuredPowers, PowerSum, measure_powers
from polygraphy.domain.quantization.rules import Rules
from polygraphy.ports.diagnosing import QuantizedModel, SuspectedParty
from polygraphy.ports.running import input_metadata

Judge = Callable[[Sequence[Values]], float]

_LARGEST = 1e6
"""A loss counts as at most this: it may be infinite."""
_USUAL_LOSS = 0.01
"""The expected loss of a site that cannot be measured by itself. Chosen, not measured."""
_AGAIN_SHARE = 0.25
"""Share of the runs, or of the time, of the sites that weights may take which a backend quantizes
again. Chosen, not measured."""


class Switches:
    """A model in one session, with a switch for each quantized site.

    Args:
        party: the backend.
        model: the model.
        feeds: the data.
        requantizes: whether a weight that is off is quantized again, as the backend does.

    Attributes:
        requantizes: see there.
        runs: number of runs of the model, on all data.
        seconds: the time of the fastest run on one input.
    """

    def __init__(
        self,
        party: SuspectedParty,
        model: QuantizedModel,
        feeds: Sequence[Feed],
        *,
        requantizes: bool,
    ) -> None:
        """Load the model with its switches in a backend."""
        self.feeds, self._count = feeds, len(model.sites)
        self.requantizes, self.runs, self.seconds = requantizes, 0.0, float("inf")
        self._name, self._compute = _load_switches(party, model, requantizes=requantizes)

    def run(self, on: Collection[int], feeds: int | None = None) -> list[Values]:
        """Return the outputs with some sites quantized, on all inputs or the first few."""
        flags = np.zeros(self._count, bool)
        flags[list(on)] = True
        chosen = self.feeds[:feeds]
        self.runs += len(chosen) / len(self.feeds)
        start = time.perf_counter()
        values: list[Values] = [self._compute({**feed, self._name: flags}) for feed in chosen]
        self.seconds = min(self.seconds, (time.perf_counter() - start) / len(chosen))
        return values


def _load_switches(
    party: SuspectedParty, model: QuantizedModel, *, requantizes: bool
) -> tuple[str, Callable[[Feed], Values]]:
    """Return the name of the switch input, and the function of the loaded model with switches.
    The model has the form with less computation if the backend supports it.
    """
    # A backend that lowers precision chooses nodes by the graph, and nodes inside If hide their
    # neighbors.
    is_lazy = getattr(party, "lowers_to", None) is None
    proto = model.add_switches(requantizes=requantizes, is_lazy=is_lazy)
    *_, name = input_metadata(proto)
    try:
        return name, party.load(proto)
    except (BackendError, ModelError):
        if not is_lazy:
            raise
        return name, party.load(model.add_switches(requantizes=requantizes))


def expect_powers(
    switches: Switches,
    model: QuantizedModel,
    rules: Rules,
    losses: Mapping[int, SiteLoss],
    judge: Judge,
    limit: float,
    *,
    is_in_seconds: bool,
) -> tuple[PowerSum, MeasuredPowers, int]:
    """Return the predicted losses of sets of sites, the measurements, and the number of inputs.
    Fewer inputs are used if the limit is low.

    Args:
        switches: the model with switches.
        model: the model.
        rules: the rules that say which nodes require a site.
        losses: the loss of each site in its own tensor.
        judge: returns the loss of outputs.
        limit: the runs on all inputs for this, or the seconds.
        is_in_seconds: whether the limit is in seconds.
    """
    groups = _groups(rules)
    end = inf
    possible = limit * len(switches.feeds)
    if is_in_seconds:
        end = time.perf_counter() + limit
        for _ in range(2):  # The first run is slower.
            switches.run((), 1)
        possible = limit / max(switches.seconds, 1e-6)
    inputs = max(1, min(len(switches.feeds), int(possible / max(len(groups), 1))))

    def loss(on: Collection[int]) -> float:
        """Return the loss with some sites quantized, limited to the largest one."""
        return min(judge(switches.run(on, inputs)), _LARGEST)

    def is_over() -> bool:
        """Return whether the time is used up."""
        return time.perf_counter() > end

    expected = [_group_power(group, losses) for group in groups]
    most = max(int(possible / inputs), 2)
    measured = measure_powers(groups, expected, loss, most, is_over)
    powers = [0.0] * len(rules.sites)
    for group, power in zip(groups, measured.values):
        powers[group[0]] = power
    again: dict[int, tuple[int, Sequence[int], float]] = {}
    end += _AGAIN_SHARE * limit
    most_again = int(_AGAIN_SHARE * possible / inputs)
    for weight, (before, behind) in (
        model.requantizable_weights.items() if switches.requantizes else ()
    ):
        # If there is no time to measure it, assume that quantizing again loses as much as the
        # weight.
        power = powers[weight]
        if not is_over() and len(again) < most_again:
            both_loss = loss((before, behind[0])) ** 2
            power = max(both_loss - powers[before] - powers[behind[0]], 0.0)
        again[weight] = before, behind, power
    return PowerSum(powers, again), measured, inputs


def _groups(rules: Rules) -> list[list[int]]:
    """Return the sites that are switched together, in the order of the nodes that require them."""
    order = {node.name: number for number, node in enumerate(rules.nodes)}
    groups: dict[tuple[str, ...], list[int]] = {}
    for number in range(len(rules.sites)):
        askers = tuple(rules.nodes_that_require(number)) or (f"//{number}",)
        groups.setdefault(askers, []).append(number)
    ranked = sorted(groups, key=lambda askers: order.get(askers[0], len(order)))
    return [groups[askers] for askers in ranked]


def _group_power(group: Sequence[int], losses: Mapping[int, SiteLoss]) -> float:
    """Return the expected power of a group of sites:
    the sum of their squared losses, each at most 1."""
    expected = [losses[number].loss if number in losses else _USUAL_LOSS for number in group]
    return sum(min(loss, 1.0) ** 2 for loss in expected)
