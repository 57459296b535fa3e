"""Sentences about quantized models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.facts import constant, fact, join_statements, statement
from polygraphy.domain.quantization.alternatives import PER_CHANNEL, RANGES
from polygraphy.domain.quantization.alternatives import WIDE as WIDE_TYPE
from polygraphy.domain.quantization.causes import (
    BIAS,
    BIAS_CLIPPED,
    BLOCK_ZERO,
    CALIBRATION,
    CLIPPED,
    MISSING,
    NIBBLES,
    ORDER,
    PAIR,
    SCALE,
    SIGN,
    WEIGHT,
    WIDE,
    ZERO_POINT,
    changed_elements,
)
from polygraphy.domain.quantization.code_tensors import StepDifference
from polygraphy.domain.quantization.listing import summarize_quantization, tensors_with_losses
from polygraphy.domain.quantization.losses import SiteLoss
from polygraphy.domain.quantization.powers import MeasuredPowers
from polygraphy.domain.quantization.search import Search
from polygraphy.domain.quantization.sites import DEQUANTIZED, Site
from polygraphy.domain.tensors.naming import count_text, in_bytes, in_percent, join_words

_CAUSES = {
    CLIPPED: "The range cuts off {cut} of the elements",
    WIDE: "The range is too wide",
    ZERO_POINT: "The zero point is wrong",
    SIGN: "The type has the wrong sign, so part of the range is lost",
    ORDER: "The scales belong to other channels",
    BIAS_CLIPPED: "The bias does not fit into int32 with its scale",
    BIAS: "The bias is stored with a scale that is not that of the input times that of the weight",
    NIBBLES: "The two halves of each byte are swapped",
    BLOCK_ZERO: "The zero point of the blocks is wrong",
    PAIR: "QuantizeLinear and DequantizeLinear have different parameters",
    MISSING: "The pair that replaces a Relu or Clip is missing before these nodes",
    SCALE: "The scale is wrong",
    WEIGHT: "The weight differs from the reference, by several steps in {changed}",
    CALIBRATION: "The range cuts off {cut} of the elements: the calibration data differs from these"
    " inputs",
}
_MOST_PERCENT = 10.0
"""A larger loss is not printed in digits: it only says that all is lost."""
_FEW_QUANTIZED = 2
"""With up to this number of quantized nodes, a fault in them cannot be told from a model that is
not quantized. Chosen, not measured."""
_NAME_NODES = (
    "Nodes without a name cannot be excluded, so name them first:"
    " for node in model.graph.node: node.name = node.name or node.output[0]."
)


def metric_value(name: str, value: float, within: float, count: int) -> str:
    """Return the sentence with the metric before any change."""
    few = " A single input is not enough to rank nearly equal nodes." if count == 1 else ""
    return f"{name} {value:.3g}, target {within:g}, {count_text(count, 'input')}.{few}"


def goal_reached(name: str, value: float, within: float) -> str:
    """Return the sentence that the quantized model already meets the target."""
    return f"The quantized model reaches the target: {name} {value:.3g}, target {within:g}."


def goal_missed(name: str, value: float, within: float) -> str:
    """Return the sentence that the quantized model misses the target."""
    return f"The quantized model misses the target: {name} {value:.3g}, target {within:g}."


def goal_out_of_reach(name: str, value: float, within: float) -> str:
    """Return the sentence that even the floating-point model misses the target."""
    if value == inf:
        return (
            f"Even with all nodes in float, {name} is infinite, so it cannot rank nodes. Use a"
            " metric that is finite for the outputs of the reference."
        )
    return (
        f"Even with all nodes in float, {name} is {value:.3g}, above the target of {within:g}."
        " Choose a larger --within."
    )


def weights_by_themselves(
    needed: int,
    allowed: int,
    floor: int,
    losses: Sequence[tuple[str, str, float, float, str]],
    count: int,
) -> str:
    """Return the sentence that a search does not fit into memory, with the weights that lose most.

    Args:
        needed: the bytes that the search needs.
        allowed: the bytes that it may use.
        floor: the bytes that the backend takes to run the reference.
        losses: ``weight`` or ``bias``, the node that reads it, its loss, the least possible loss,
            and the cause if a parameter is wrong, else an empty string.
        count: number of weights measured.
    """
    text = (
        f"Nodes were not searched, because this needs about {in_bytes(needed)} of memory, but only"
        f" {in_bytes(allowed)} is allowed, besides {in_bytes(floor)} in the backend for the"
        " reference. Pass a larger --memory-budget."
    )
    if not losses:
        return text
    parts = [
        f"the {kind} of {node!r} loses {in_percent(loss)} of its RMS ({in_percent(least)} is"
        + (f" possible; wrong: {cause})" if cause else " possible)")
        for kind, node, loss, least, cause in losses
    ]
    measured = f"Only weights were measured ({count}), one by one"
    return f"{text} {measured}: {'; '.join(parts)}."


def sites_found(sites: Sequence[Site]) -> str:
    """Return the sentence with the number of quantized sites."""
    if not sites:
        return "None."
    summary = summarize_quantization([*tensors_with_losses(sites, {})])
    return f"{count_text(len(sites), 'site')}: {summary}."


def rewrites_lose(name: str, plain: float, before: float, within: float) -> str:
    """Return the sentence that rewrites by the backend, and not quantization, cause the loss."""
    return (
        f"Rewrites of the graph by the backend cause most of the loss: without them, {name} is"
        f" {plain:.3g} instead of {before:.3g} (target {within:g})."
    )


def sites_measured(measured: MeasuredPowers, inputs: int, every: int) -> str:
    """Return the sentence with the number of runs in which one site, or some sites, are quantized,
    and with the number of sites that were not measured."""
    which = "some sites" if measured.together else "one site"
    text = f"{count_text(measured.runs, 'run')}, each with {which} quantized"
    text += f", on {inputs} of {every} inputs." if inputs < every else "."
    if measured.together:
        text += (
            f" The limit was reached before {measured.together} of"
            f" {count_text(len(measured.values), 'site')} were measured individually."
        )
    return text


def differs_without_quantization(exact: float) -> str:
    """Return the sentence that the models differ even without quantization."""
    return (
        f"With all sites in float, the outputs still differ by {exact:.2g} x RMS, so these sites"
        " are not the cause."
    )


def reference_may_be_older(exact: float) -> str:
    """Return the sentence that nodes without a counterpart in the reference may be quantized."""
    return (
        f"With all known sites in float, the outputs still differ by {exact:.2g} x RMS. Nodes that"
        " an optimizer fused before quantization have no counterpart in the reference, and stay"
        " quantized. With --reference, pass the float model that the quantizer read."
    )


def repair_does_not_help(count: int, value: float) -> str:
    """Return the sentence that correct parameters do not reach the target."""
    return f"{count_text(count, 'candidate')}, but correct ranges leave {value:.3g}."


def metric_after_correction(chosen: int, suspects: int, value: float) -> str:
    """Return the sentence with the number of corrected parameters, and the metric after that."""
    return f"{chosen} of {count_text(suspects, 'candidate')}; with correct values: {value:.3g}."


def search_result(search: Search, nodes: int, after: float) -> str:
    """Return the sentence with the size of the best set, the runs and the metric in the backend."""
    over = (
        " The search reached its limit before all sets were tried." if search.is_cut_short else ""
    )
    if search.kept is None:
        return f"No set found in {count_text(search.runs, 'run')}.{over}"
    tried = f"{len(search.kept)} of {nodes}, {count_text(search.runs, 'set')} tried"
    return f"{tried}; backend: {after:.3g}.{over}"


def search_notes(search: Search, nodes: int) -> str:
    """Return the sentence that the search was cut short; empty if it was not."""
    if not search.is_cut_short:
        return ""
    runs = count_text(search.runs, "run")
    return f"The search reached its limit after {runs}, with sets of {nodes} nodes."


def path_of_saved_model(path: str) -> str:
    """Return the sentence with the path of the saved model."""
    return f"The model that reaches the target: {path}"


def nothing_saved(*, is_reached: bool) -> str:
    """Return the sentence that no model was saved, and why."""
    if is_reached:
        return "Nothing: the model reaches the target as it is."
    return "Nothing: no quantized model that reaches the target was found."


def not_enough_corrected(metric: str, value: float, count: int) -> str:
    """Return the sentence that the model misses the target with the wrong weights corrected."""
    which = "the wrong weight" if count == 1 else f"the {count} wrong weights"
    return f"With {which} corrected, {metric} is {value:.3g}."


@fact
def products_saturate(metric: str, before: float, after: float) -> str:
    """Return the fact that the CPU saturates products of eight bits."""
    return (
        "Sums of products of uint8 and int8 saturate at 16 bits, because this CPU has no VNNI. With"
        f" exact products, {metric} falls from {before:.3g} to {after:.3g}, and every node remains"
        " quantized."
    )


DIFFERENCE = "the difference from the other backend, relative to the RMS,"
"""What falls if the products of a backend are exact."""
AVOID_SATURATION = (
    "Quantize with reduce_range=True (7-bit weights), or set the session option"
    " 'session.x64quantprecision' to '1', which is slower. A CPU with VNNI is not affected."
)


@fact
def metric_with_float_nodes(
    metric: str, before: float, after: float, kept: Sequence[str], nodes: int, within: float
) -> str:
    """Return the fact that the metric falls if some nodes stay in floating point."""
    which = "this node" if len(kept) == 1 else f"these {len(kept)} of {nodes} nodes"
    return (
        f"With {which} in float, {metric} falls from {before:.3g} to {after:.3g}"
        f" (target {within:g}), measured with the mixed model in the backend."
    )


@fact
def size_of_search(runs: int, proven: int, size: int, is_cut_short: bool) -> str:
    """Return the fact that sets of nodes were tried, and up to which size none suffices."""
    text = f"{count_text(runs, 'set')} tried."
    if proven:
        most = "no single node suffices" if proven == 1 else f"no {proven} nodes suffice"
        text += f" All sets of up to {count_text(proven, 'node')} were tried: {most}."
    if size - 1 > proven:
        text += f" Not all sets of {size - 1} nodes were tried."
    return text + (" The search reached its limit." if is_cut_short else "")


@fact
def site_loss(name: str, kind: str, stored: str, loss: Any) -> str:
    """Return the fact that a site loses a share of its RMS by quantization."""
    text = f"{kind.capitalize()} {_name(name)!r} ({stored or 'quantized'})"
    if loss is None:
        return f"{text} is quantized at run time."
    least = f" (least possible: {in_percent(loss.least)})" if loss.least else ""
    return f"{text} loses {in_percent(loss.loss)} of its RMS{least}."


@fact
def shared_scale(name: str, loss: float, possible: float) -> str:
    """Return the fact that one scale for all channels of a weight loses accuracy."""
    return (
        f"Weight {_name(name)!r} has one scale for channels of different size. The worst channel"
        f" loses {in_percent(loss)} of its RMS, but only {in_percent(possible)} with a scale"
        " for each channel (per_channel=True)."
    )


@fact
def wrong_parameter(site: Site, loss: SiteLoss, cause: str) -> str:
    """Return the fact that a quantization parameter is wrong, its cause and its loss."""
    changed = count_text(changed_elements(site), "element")
    text = _CAUSES[cause].format(cut=in_percent(loss.cut), changed=changed)
    channel = "" if loss.channel is None else f" in channel {loss.channel}"
    if site.scheme is not None and site.scheme.has_invalid_scale:
        scales = np.ravel(site.scheme.scale)
        worst = scales[~np.isfinite(scales)] if not np.all(np.isfinite(scales)) else scales
        return (
            f"A scale is {worst[0]:g}, which is not a positive number: {site.kind}"
            f" {_name(site.name)!r} ({site.format})."
        )
    lost = in_percent(loss.loss) if loss.loss <= _MOST_PERCENT else "more than 1000%"
    return (
        f"{text}: {site.kind} {_name(site.name)!r} ({site.format}) loses {lost} of its"
        f" RMS{channel}; {in_percent(loss.least)} is possible with these bits."
    )


@fact
def wrong_scale(problem: str) -> str:
    """Return the fact that a scale is not a positive number."""
    return problem


@fact
def repair_effect(metric: str, before: float, after: float, count: int) -> str:
    """Return the fact that the metric falls if parameters are corrected."""
    which = "the correct value" if count == 1 else f"the {count} correct values"
    falls = f"{metric} falls from {before:.3g} to {after:.3g}"
    return f"With {which}, {falls}, and every node remains quantized."


@fact
def shared_parameters(names: Sequence[str]) -> str:
    """Return the fact that other tensors have the same parameters."""
    which = "has" if len(names) == 1 else "have"
    return f"{join_words([repr(_name(name)) for name in names])} {which} the same parameters."


SAVE_CORRECTED = constant("save_corrected", "Add --save PATH to write the corrected model.")
SAVE_MIXED = constant("save_mixed", "Add --save PATH to write the mixed model.")


def with_saving_command(advice: str, command: Callable[[], str]) -> str:
    """Return advice with the whole command that writes the model,
    for readers who did not type the command of the diagnosis."""
    for hint in (SAVE_CORRECTED, SAVE_MIXED):
        if hint in advice:
            model = hint.removeprefix("Add --save PATH to write ").rstrip(".")
            line = command()
            advice = advice.replace(hint, f"To write {model}: `{line}`." if line else "").rstrip()
    return advice


def set_parameter(site: Site, loss: SiteLoss, *, is_saved: bool) -> str:
    """Return the sentence with the correct value of a parameter, and how to set it."""
    return join_statements(_value_to_set(site, loss), "" if is_saved else SAVE_CORRECTED)


def _value_to_set(site: Site, loss: SiteLoss) -> str:
    """Return the sentence with the correct value of a parameter."""
    best = loss.best
    if site.kind == "bias" or best is None:
        return (
            f"Quantize the bias {_name(site.name)!r} again with the scale of the input times that"
            f" of the weight, or keep it in float."
        )
    if site.kind == "operator":
        return (
            f"Quantize the weight of the node that computes {_name(site.name)!r} again from its"
            f" float values."
        )
    if site.kind != "activation":
        return f"Quantize the weight {_name(site.name)!r} again from its float values."
    scale, zero = float(np.ravel(best.scale)[0]), int(np.ravel(best.zero_point)[0])
    low, high = loss.spread
    if site.is_missing:
        return (
            f"Insert QuantizeLinear and DequantizeLinear with scale {scale:.6g} and zero point"
            f" {zero} ({best.dtype}) after {_name(site.name)!r}."
        )
    return (
        f"Set scale {scale:.6g} and zero point {zero} for {_name(site.name)!r}: the inputs range"
        f" from {low:.4g} to {high:.4g}."
    )


def metric_after_quantizing_again(value: float | None, why: str) -> str:
    """Return the sentence with the metric after quantizing again, or why there is none."""
    return f"{value:.3g} with the printed line." if value is not None else f"Not tried: {why}."


SEVERAL_QUANTIZERS = "several quantizers created this model"
"""The reason that a model is not quantized again."""


def quantizer_missing(package: str) -> str:
    """Return the reason that a quantizer is not installed."""
    return f"{package} is not installed"


def not_reproduced(package: str) -> str:
    """Return the reason that a quantizer does not create this model."""
    return f"{package} does not reproduce this model, because its options are unknown"


def reason_of_other_metric(package: str, value: float, before: float) -> str:
    """Return the reason that a model that is quantized again is less or more accurate."""
    return f"{not_reproduced(package)} ({value:.3g} instead of {before:.3g})"


def quantizer_fails(package: str, error: Exception) -> str:
    """Return the reason that a quantizer fails."""
    text = " ".join(str(error).split())
    return f"{package} fails: {text[:120].rstrip('.') or type(error).__name__}"


def keep_in_float(
    nodes: Sequence[str],
    line: str,
    *,
    is_known: bool,
    is_unnamed: bool,
    again: float | None,
    why: str,
    added: int,
    within: float,
    is_saved: bool,
) -> str:
    """Return the sentence on how to keep nodes in floating point.

    Args:
        nodes: the nodes.
        line: the line for the quantizer's settings.
        is_known: whether it is known which quantizer made the model.
        is_unnamed: whether a node has no name, so that no line can exclude it.
        again: the metric after the model was quantized again with that line; None if it was not.
        why: the reason why it was not; may be empty.
        added: number of activations that the quantizer quantizes only then.
        within: the target.
        is_saved: whether the mixed model is saved.
    """
    which = "this node" if len(nodes) == 1 else f"these {len(nodes)} nodes"
    if again is None:
        tried = f"Not tried in the quantizer: {why}." if why else "Not tried in the quantizer."
    else:
        tried = f"Quantized again: {again:.3g}"
        tried += ", above the target." if again > within else "."
        if added:
            also = count_text(added, "other tensor")
            tried += (
                f" The quantizer then quantizes {also}, here calibrated on these inputs: measure"
                " the result of your calibration data."
            )
    unknown = "" if is_known else " The model does not say which quantizer created it."
    naming = f" {_NAME_NODES}" if is_unnamed else ""
    advice = f"Quantize again without {which}: {line}.{naming} {tried}{unknown}"
    return join_statements(advice, "" if is_saved else SAVE_MIXED)


FLOAT = "float"
_ALTERNATIVES = {
    PER_CHANNEL: "a scale for each channel of the weights",
    WIDE_TYPE: "16-bit activations",
    RANGES: "the ranges of these inputs",
    FLOAT: "activations in float",
}


def diffuse(
    metric: str,
    before: float,
    within: float,
    curve: Sequence[tuple[int, float]],
    tried: Mapping[str, float],
    search: Search,
) -> str:
    """Return the sentence that many nodes each lose a little accuracy, and which change helps.

    Args:
        metric: its name.
        before: the metric of the model.
        within: the target.
        curve: the best metric by number of nodes in float.
        tried: the metric of the model quantized in other ways.
        search: the search for nodes.
    """
    points = ", ".join(f"{value:.3g} with {size}" for size, value in curve)
    goal = f"{metric} from {before:.3g} to {within:g} ({count_text(search.runs, 'set')} tried)."
    text = f"Many small losses: no small set of nodes reduces {goal}"
    if search.is_cut_short:
        text = f"Within the limit of the search, no small set of nodes reduces {goal}"
        text += " --budget allows more sets."
    if points:
        text += f" Best with nodes in float: {points}."
    enough = [name for name, value in tried.items() if value <= within]
    if enough:
        helps = ", ".join(f"{_ALTERNATIVES[name]} ({tried[name]:.3g})" for name in enough)
        text += f" Changes that reach the target, tried with this model: {helps}."
    rest = ", ".join(
        f"{value:.3g} with {_ALTERNATIVES[name]}"
        for name, value in tried.items()
        if name not in enough
    )
    if rest:
        text += f" {'Also tried' if enough else 'Tried with this model'}, not enough: {rest}."
    return text


def codes_not_compared(error: Exception) -> str:
    """Return the sentence with the reason why codes are not compared."""
    return f"Not compared: {str(error)[:120]}"


def code_differences(found: Sequence[StepDifference], count: int) -> str:
    """Return the sentence with the number and the size of code differences, each computed from
    equal codes.
    """
    if not found:
        return f"All {count_text(count, 'quantized tensor')} have equal codes."
    worst = max(found, key=lambda step_difference: (step_difference.steps, step_difference.share))
    return (
        f"Codes differ in {len(found)} of {count_text(count, 'quantized tensor')}, each computed"
        f" from equal codes: by at most {count_text(worst.steps, 'step')}, in"
        f" {_share(worst.share)} of {worst.tensor.name!r}."
    )


def steps_apart(found: Sequence[StepDifference]) -> str:
    """Return the sentence that the codes of backends differ by some quantization steps, in how many
    elements.
    """
    worst = max(found, key=lambda difference: (difference.steps, difference.share))
    tensors = f"{count_text(len(found), 'tensor')}, each computed from equal codes"
    where = f"{_share(worst.share)} of the elements ({worst.tensor.node!r})"
    if worst.steps == 1:
        text = f"The backends differ by at most one quantization step in {tensors}: in at most"
    else:
        text = f"The backends differ by up to {worst.steps} quantization steps in {tensors}: in"
    return f"{text} {where}. To judge the accuracy, use --reference with --within."


def half_steps_apart(found: Sequence[StepDifference], dtype: str) -> str:
    """Return the sentence that half precision changes codes by at most one quantization step, in
    how many elements."""
    worst = max(found, key=lambda difference: difference.share)
    return (
        f"{dtype} and fp32 differ by at most one quantization step in"
        f" {count_text(len(found), 'tensor')}, each computed from equal codes: in at most"
        f" {_share(worst.share)} of the elements ({worst.tensor.node!r})."
    )


@fact
def codes_differ(first: str, party: str, one: StepDifference) -> str:
    """Return the fact that two backends compute different codes from equal codes."""
    index = ",".join(map(str, one.index))
    return (
        f"From equal codes, {one.tensor.name!r} differs by up to {one.steps} quantization steps in"
        f" {_share(one.share)} of its elements: [{index}] = {one.values[1]} in {party},"
        f" {one.values[0]} in {first}."
    )


@fact
def arbiter_decides(name: str) -> str:
    """Return the fact that a third backend agrees with the other backend."""
    return f"{name} agrees with the other backend, within one step."


@fact
def correct_without_rewrites(name: str) -> str:
    """Return the fact that a backend computes equal codes without rewrites."""
    return f"Without rewrites, {name} computes the same codes, within one step."


def _share(share: float) -> str:
    """Return a share in percent; ``all`` for nearly 100%."""
    percent = 100 * share
    return f"{percent:.2g}%" if percent < 99.5 else "all"


def _name(name: str) -> str:
    """Return the name of a tensor in the model in floating point."""
    name = name.partition("//again")[0].removesuffix(DEQUANTIZED)
    return name.removesuffix("_DequantizeLinear_Output").removesuffix("_QuantizeLinear_Input")


@statement
def generated_data_exceed_ranges(cut: float) -> str:
    """Return the sentence that generated data are not like the calibration data."""
    return (
        f"The generated data exceed ranges of the quantized model, which cut off up to"
        f" {in_percent(cut)} of the elements of a tensor, and this causes most of the difference."
        " Pass data like those that it was calibrated with (--load-inputs)."
    )


@statement
def saved_without(accepted: str | None, count: int) -> str:
    """Return the sentence that saved tensors are of a model that is not quantized,
    or may be if few quantized nodes show it.

    Args:
        accepted: the type in which the model computes, if `run` accepts its outputs.
        count: the number of saved tensors that quantized nodes compute.
    """
    are = "are" if count > _FEW_QUANTIZED else "may be"
    outputs = (
        f" {accepted} rounding may cause a difference of this size in the outputs, and run --rtol"
        " auto accepts them."
        if accepted
        else ""
    )
    return (
        f"The saved tensors {are} of a model that is not quantized: they contain no quantized"
        f" tensors, and most quantized nodes differ from them.{outputs} Pass that model with"
        " --reference, or save all tensors of the correct quantized model (--onnx-outputs mark"
        " all)."
    )
