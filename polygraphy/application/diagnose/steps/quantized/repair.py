"""Finds which parameters of a quantized model are wrong: with better ones, the model loses much
less.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Sized
from itertools import product
from math import inf

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.steps.quantized.runs import HELPS, GoalRuns, reduce_metric
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.errors import BackendError
from polygraphy.domain.model.regions import BOUNDED
from polygraphy.domain.quantization.causes import (
    CALIBRATION,
    CLIPPED,
    bias_for_products,
    cause_of,
    cuts_on_purpose,
    explains_bias,
    is_certain,
    is_suspect,
)
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.quantization.losses import SiteLoss, weight_loss
from polygraphy.domain.quantization.metrics import RmsRatio
from polygraphy.domain.quantization.rules import FOLLOWS
from polygraphy.domain.quantization.schemes import Scheme
from polygraphy.domain.quantization.sites import DEQUANTIZED, Site
from polygraphy.ports.diagnosing import QuantizedModel

_REPAIRS, _REPAIRING = 24, 0.5
"""Most sets of parameters that are corrected, and the share of `--budget` for this."""
_CERTAIN = 0.9
"""A repair counts if it leaves at most this share of the loss, and all parameters are wrong by
themselves, such as weights with other values. Chosen, not measured."""
_ALMOST = 1.5
"""A parameter is not named if the others alone leave at most this multiple of the error. Chosen,
not measured."""
_UNIT = 1.02
"""Largest end of a range that stands for 1; a step of 8 bits is less. Chosen, not measured."""
_MANY = 3
"""If at least this number of activations is cut off, the calibration data are the reason. Chosen,
not measured."""


@frozen
class Repair:
    """Parameters that were corrected.

    Attributes:
        model: the model with them.
        sites: their positions, with what is lost there.
        before: the metric before.
        after: the metric after that.
    """

    model: QuantizedModel
    sites: Mapping[int, SiteLoss]
    before: float
    after: float


def find_repair(
    case: Case,
    runs: GoalRuns,
    model: QuantizedModel,
    losses: Mapping[int, SiteLoss],
    before: float,
) -> Repair | None:
    """Return the incorrect parameters with their corrections, or None.
    The result is None if correcting them does not help."""
    suspects, losses = _suspects(model, losses)
    if not suspects:
        return None
    suspects.sort(key=lambda number: -losses[number].ratio * max(losses[number].loss, 1e-9))
    with case.record_step(titles.WRONG_PARAMETERS) as notes:
        tried: dict[tuple[int, ...], tuple[float, float]] = {}
        # A metric of the worst part can hide a repair of other parts, so the RMS ratio of all
        # outputs is also measured.
        rms_ratio = RmsRatio()
        by_metric, target = True, runs.goal.within

        def better_schemes(numbers: Sequence[int]) -> dict[int, Scheme | None]:
            """Return, by site, the scheme that loses least."""
            return {number: losses[number].best for number in numbers}

        def remaining_loss(numbers: Sequence[int]) -> float:
            """Return the loss that remains after better parameters at some sites."""
            key = tuple(sorted(numbers))
            if key not in tried:
                values = runs.run(model.proto_with_schemes(better_schemes(key)))
                tried[key] = runs.judge(values), runs.judge(values, rms_ratio)
            value, rms = tried[key]
            return value if by_metric else rms

        whole_loss = runs.judge(runs.values, rms_ratio)
        count, every, limit, together = len(suspects), inf, target, remaining_loss(suspects)
        certain = [n for n in suspects if is_certain(model.sites[n], losses[n])]
        for numbers, by_metric in product((suspects, certain), (True, False)):
            share = _CERTAIN if numbers == certain else HELPS
            first = before if by_metric else whole_loss
            limit = (
                max(reduce_metric(first, share), target)
                if by_metric
                else reduce_metric(first, share)
            )
            every = remaining_loss(numbers) if numbers else inf
            if every <= limit:
                suspects = list(numbers)
                break
        else:
            # The quantizer may have chosen some parameters on purpose, so correcting all of them
            # can make the result worse.
            by_metric, limit = True, max(reduce_metric(before), target)
            single = {
                number: remaining_loss([number])
                for number in _sites_that_may_help(runs, model, suspects, limit)
                if _can_try(runs, tried)
            }
            suspects = [number for number, value in single.items() if value < before]
            least = min(single.values(), default=before)
            if suspects and remaining_loss(suspects) > least:
                suspects = [number for number in suspects if single[number] == least]
            every = remaining_loss(suspects) if suspects else inf
        if every > limit:
            notes.append(words.repair_does_not_help(count, together))
            return None
        floor = min(target, reduce_metric(before)) if by_metric else 0.0
        enough = min(max(_ALMOST * every, floor), limit)
        chosen, size = list(suspects), 1
        # Correcting the worst parameters may be sufficient.
        while size < len(suspects) and _can_try(runs, tried):
            if remaining_loss(suspects[:size]) <= enough:
                chosen = suspects[:size]
                break
            size *= 2
        for number in reversed(chosen):
            remaining_chosen = [index for index in chosen if index != number]
            if (
                remaining_chosen
                and _can_try(runs, tried)
                and remaining_loss(remaining_chosen) <= enough
            ):
                chosen = remaining_chosen
        after, _ = tried[tuple(sorted(chosen))]
        notes.append(words.metric_after_correction(len(chosen), count, after))
    fixed = model.with_schemes(better_schemes(sorted(chosen)))
    return Repair(fixed, {number: losses[number] for number in chosen}, before, after)


def _suspects(
    model: QuantizedModel, losses: Mapping[int, SiteLoss]
) -> tuple[list[int], Mapping[int, SiteLoss]]:
    """Return the indices of the sites with a wrong parameter, and the losses by site.

    The losses of biases are those for integer kernels. Instead of a bias, it is the operand whose
    scale was changed after the bias was stored.
    """
    sites, cuts = model.sites, cuts_on_purpose(model.sites, losses)
    fixed = _sites_with_fixed_range(model)
    suspects = [
        n for n, loss in losses.items() if n not in fixed and is_suspect(sites[n], loss, cuts=cuts)
    ]
    by_name = {site.name: number for number, site in enumerate(sites)}
    causing: dict[int, int] = {}
    changed: dict[int, SiteLoss] = {}
    for node in model.nodes:
        numbers = [by_name.get(name, -1) for name in node.reads[:3]]
        if len(numbers) < 3 or sites[bias := numbers[2]].kind != "bias" or bias not in losses:
            continue
        as_read = sites[bias]
        if min(numbers) >= 0 and bias not in suspects:
            product = bias_for_products(as_read, [sites[number] for number in numbers[:2]])
            loss = None if product is None else weight_loss(product)
            if product is None or loss is None or not is_suspect(product, loss):
                continue
            as_read, changed[bias] = product, loss
            suspects.append(bias)
        if bias not in suspects:
            continue
        for number in numbers[:2]:
            if number in losses and explains_bias(as_read, sites[number], losses[number]):
                causing[bias] = number
    named = list(dict.fromkeys(causing.get(number, number) for number in suspects))
    return named, {**losses, **changed}


def _sites_with_fixed_range(model: QuantizedModel) -> set[int]:
    """Return the sites of bounded results, such as those of Softmax, with the operator's range:
    quantizers set it regardless of the data."""
    bounded = {
        name for node in model.nodes if node.op.rpartition(".")[2] in BOUNDED for name in node.makes
    }
    fixed = set()
    for number, site in enumerate(model.sites):
        if site.name in bounded and site.scheme is not None and site.scheme.is_per_tensor:
            low, high = (float(np.ravel(limit)[0]) for limit in site.scheme.limits())
            if -_UNIT <= low <= 0 and 1 / _UNIT <= high <= _UNIT:
                fixed.add(number)
    return fixed


def _sites_that_may_help(
    runs: GoalRuns, model: QuantizedModel, numbers: Sequence[int], limit: float
) -> Sequence[int]:
    """Return the sites to correct one at a time;
    none if the model misses a limit even with all of them in floating point."""
    if len(numbers) < 2:
        return ()
    try:
        loss = runs.judge(runs.run(model.float_at_sites(numbers)))
    except BackendError:
        return numbers
    return numbers if loss <= limit else ()


def _can_try(runs: GoalRuns, tried: Sized) -> bool:
    """Return whether there is time to correct other parameters."""
    is_in_time = runs.goal.seconds is None or (runs.time_left() > (1 - _REPAIRING) * runs.allowed)
    return len(tried) < _REPAIRS and is_in_time


def wrong_parameters(model: QuantizedModel, repair: Repair, goal: QuantizedGoal) -> list[Culprit]:
    """Return culprits for the sites with wrong scales or zero points,
    or one culprit for a rule that covers many.
    """
    copies = _copies(model, repair.sites)
    causes = {
        number: cause_of(model.sites[number], loss)
        for number, loss in repair.sites.items()
        if number not in copies
    }
    clipped = [number for number, cause in causes.items() if cause == CLIPPED]
    if len(clipped) >= _MANY:
        causes |= dict.fromkeys(clipped, CALIBRATION)
    culprits = []
    for number, cause in sorted(causes.items()):
        site, loss, is_saved = model.sites[number], repair.sites[number], goal.is_settled
        culprit = parameter_culprit(model, site, loss, cause, is_saved=is_saved)
        facts = [*culprit.facts]
        if names := [model.sites[copy].name for copy, first in copies.items() if first == number]:
            facts.append(words.shared_parameters(names))
        facts.append(words.repair_effect(goal.name, repair.before, repair.after, len(causes)))
        culprits.append(evolve(culprit, facts=facts))
    return culprits


def _copies(model: QuantizedModel, numbers: Collection[int]) -> dict[int, int]:
    """Return, by site, the site from which its parameters are copied: quantizers give a tensor
    that only moves or selects the elements of another tensor the parameters of that tensor."""
    by_name = {model.sites[number].name: number for number in numbers}
    copies: dict[int, int] = {}
    for node in model.nodes:
        if node.op not in FOLLOWS or not node.reads or node.reads[0] not in by_name:
            continue
        first = by_name[node.reads[0]]
        for number in (by_name[name] for name in node.makes if name in by_name):
            if _has_equal_scheme(model.sites[first], model.sites[number]):
                copies[number] = copies.get(first, first)
    return copies


def _has_equal_scheme(site: Site, other_site: Site) -> bool:
    """Return whether two sites have equal scales and zero points."""
    scheme, other = site.scheme, other_site.scheme
    return (
        scheme is not None
        and other is not None
        and np.array_equal(scheme.scale, other.scale)
        and np.array_equal(scheme.zero_point, other.zero_point)
    )


def parameter_culprit(
    model: QuantizedModel, site: Site, loss: SiteLoss, cause: str, *, is_saved: bool
) -> Culprit:
    """Return the culprit for a site with a wrong parameter, without the effect of the correct one.

    Args:
        model: the model.
        site: the site.
        loss: its loss.
        cause: why it is so large.
        is_saved: whether saving the corrected model need not be suggested.
    """
    nodes = _adjacent_nodes(model, site)
    facts = [words.wrong_parameter(site, loss, cause)]
    note = words.set_parameter(site, loss, is_saved=is_saved)
    ops = [node.op for node in model.nodes if node.name == nodes[-1]] if nodes else []
    names, op = nodes or [site.name], ops[0] if ops else ""
    remedy = Remedy(None, True, note)
    tensor = model.source(site).removesuffix(DEQUANTIZED)
    return Culprit(names, tensor, MODEL, cause, None, facts, remedy, op)


def _adjacent_nodes(model: QuantizedModel, site: Site) -> list[str]:
    """Return the node that computes a tensor, or else the nodes that read it;
    the nodes that read it without a pair, if this is missing."""
    makers = [node.name for node in model.nodes if site.name in node.makes]
    readers = [node.name for node in model.nodes if site.name in node.reads]
    return readers if site.is_missing or not makers else makers
