"""Where outputs begin to be wrong: every node, and every fused node, alone on the values of a
reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence, Set
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.parts import compute_part, cut_part
from polygraphy.application.diagnose.tensor_trace import (
    Trace,
    run_isolated_nodes,
    tensor_store,
    trace_tensors,
)
from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.closeness import has_nan, is_broken
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import evidence, remedies, steps
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Node
from polygraphy.domain.model.regions import (
    BOUNDED,
    MOVES,
    computing_op,
    missing_nodes,
    read_by_region,
    region_before,
)
from polygraphy.domain.rounding import (
    NOISE,
    Deviation,
    deviation,
    move_by_epsilons,
    rounding_between,
    spread,
)
from polygraphy.domain.row_order import FLIPS
from polygraphy.domain.sizes import without_fills
from polygraphy.domain.tensors.parts import Layout
from polygraphy.domain.tensors.precision import epsilon_of, is_float, is_float_code
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model

ONE_STEP = 0.03
"""The same for integers that differ by one, behind other integer computations."""
COARSELY = 0.15
"""The same where a backend computes a function of integers by a table, such as Softmax."""
_USUALLY = 0.1
"""Largest mean share of elements in which such a table differs; few elements scatter around it."""
_STEPPING = MOVES | {"Constant", "DequantizeLinear", "QuantizeLinear"}
"""Operators that compute nothing but steps."""
_QUANTIZING = {"DynamicQuantizeLinear", "QGemm", "QuantizeLinear"}
"""Operators that compute codes, besides those whose names begin with QLinear."""
_WHOLE = 128
"""A region with more nodes is not named: its nodes pass on values that are rounded differently."""
_A_STEP = 1.01
"""One step, plus the rounding of a difference of two numbers that are one step apart."""
_STEP = 2.0**-7
"""A step of eight bits, relative to the size of a tensor."""
_EVERYWHERE = 0.05
"""With a larger share of different elements, a node is not equally correct. Chosen, not measured.
"""
SMALL = 1e-4
"""Error of a correct kernel, such as an approximated exponential, relative to the element and to
the size of the tensor. Chosen, not measured."""
_CODES = 1.01
"""Difference in steps between two codes that rounding explains: one, plus the rounding of the
difference."""
_OF_ONE = 4.0
"""Epsilons of 1 by which the approximation of a function with smaller values may differ. Chosen,
not measured."""
_VARIANCE, _DIVISOR = ("BatchNormalization", 4), ("Div", 1)
"""Operators that make NaN of the weights at these places, if these are negative, or zero."""
_MAY_BE_FILLED = Layout()
"""The layout of a tensor that is computed at once, but may hold constants of a mask."""
_SAMPLES = 4
"""Repetitions of a node that may fail intermittently, and perturbed runs that show rounding."""
_FEW, _MANY = 3, 16
"""A region with at most the first number of nodes is small; a region with more than the second is
not reduced."""


@frozen
class WrongNodes:
    """Nodes that compute incorrect values from correct inputs.

    Attributes:
        region: their positions in the model, in order.
        tensor: their outputs.
        deviation: the error.
        fused: whether the error only shows in the rewritten graph, where the nodes run together.
        explained: whether different rounding between the nodes has the same effect, so that they
            are not incorrect.
        is_step: whether they compute codes that are at most one quantization step off, which is not
            a fault.
        computed: the positions of all nodes that run together, also those that are not rewritten.
    """

    region: Sequence[int]
    tensor: str
    deviation: Deviation
    fused: bool
    explained: bool = False
    is_step: bool = False
    computed: Sequence[int] = ()


@frozen
class IsolatedNodes:
    """The deviations of nodes that run in isolation.

    Attributes:
        wrong: the tensors that differ, in the order of the model, with their errors.
        values: the computed tensors.
        compared: the errors of all compared tensors.
    """

    wrong: Sequence[tuple[str, Deviation]]
    values: Values
    compared: Mapping[str, Deviation]


def compare_isolated_nodes(
    case: Case, model: OpenModel, party: SuspectedParty, trace: Trace
) -> IsolatedNodes:
    """Return the comparison of each isolated node of a backend with a trace.

    Raises:
        BackendError: the backend cannot run isolated nodes.
    """
    graph = case.model.graph
    order = graph.producers
    wrong: dict[str, Deviation] = {}
    values = tensor_store(case, sum(trace.sizes().values()))
    compared: dict[str, Deviation] = {}
    for computed_values, noise_of_all in run_isolated_nodes(case, model, party, trace):
        noise: Mapping[str, Any] = {}
        for name, array in computed_values.items():
            if name not in order:
                continue
            op = computing_op(graph, name)
            value, expected, step = array, trace.values[name], 0.0
            if is_float_code(expected) and is_float_code(value):
                # Rounding moves a code by at most one step.
                step = _CODES * epsilon_of(expected.dtype)
                value, expected = value.astype(np.float32), expected.astype(np.float32)
            steps_of_codes = step * np.abs(expected) / NOISE if step else 0.0
            off = judge_tensor(value, expected, steps_of_codes, op)
            if off.is_wrong:
                # Only measure the effect of rounding if there is a difference, because it requires
                # more runs.
                noise = noise or noise_of_all()
                off = judge_tensor(value, expected, noise[name] + steps_of_codes, op)
            compared[name] = off
            if off.is_wrong:
                wrong[name], values[name] = off, value
    return IsolatedNodes(sorted(wrong.items(), key=lambda item: order[item[0]]), values, compared)


def judge_tensor(value: Any, expected: Any, noise: Any, op: str = "") -> Deviation:
    """Return the deviation of an operator's output, and whether approximations explain it."""
    if op in BOUNDED and is_float(expected):
        noise = noise + _OF_ONE * epsilon_of(expected.dtype) / NOISE
    measured = deviation(value, expected, noise)
    if measured.is_wrong:
        if deviation(value, expected, noise, rtol=SMALL).is_wrong:
            return measured
        measured = evolve(measured, is_approximation=True)
    return _judge_beside_fills(value, expected, noise) or measured if measured.off else measured


def _judge_beside_fills(value: Any, expected: Any, noise: Any) -> Deviation | None:
    """Return the deviation of elements that are wrong by their own size, which constants that fill
    the tensor, such as those of a mask, would hide; None if there is none."""
    if not (is_float(value) and is_float(expected) and np.shape(value) == np.shape(expected)):
        return None
    rounding = rounding_between((value, expected), layout=_MAY_BE_FILLED)
    if rounding is None or not rounding.parts:
        return None
    share = max(1.0, SMALL / rounding.rtol)
    if not deviation(value, expected, noise, rounding.scale(share)).is_wrong:
        return None
    measured = deviation(value, expected, noise, rounding)
    size = root_mean_square(without_fills(value, expected))
    return evolve(measured, relative=measured.off / size) if size else measured


def cumulative_deviations(case: Case, own_values: Values, expected: Values) -> dict[str, Deviation]:
    """Return the deviations of all tensors computed from the inputs."""
    deviations: dict[str, Deviation] = {}
    graph = case.model.graph
    for name in graph.producers:
        if name in own_values and name in expected:
            op = computing_op(graph, name)
            deviations[name] = judge_tensor(own_values[name], expected[name], 0.0, op)
    return deviations


def describe_first_error(
    case: Case,
    party: SuspectedParty,
    trace: Trace,
    deviations: Mapping[str, Deviation] | None = None,
) -> str | None:
    """Return a sentence about the first tensor that differs without rewrites; None if none does.

    Args:
        case: the model, the backends and the data to diagnose.
        party: the party that computes them.
        trace: the expected tensors.
        deviations: their errors, if they were computed before.

    Raises:
        BackendError: the backend cannot return all tensors.
    """
    if deviations is None:
        values = trace_tensors(case, party, trace.feed).values
        deviations = cumulative_deviations(case, values, trace.values)
    case.keep_errors(party.name, "cumulative", deviations)
    first = next((item for item in deviations.items() if item[1].is_wrong), None)
    return None if first is None else steps.largest_error(first[0], first[1].relative)


def wrong_nodes(case: Case, party: SuspectedParty, trace: Trace) -> list[WrongNodes]:
    """Return the nodes that a backend computes differently in isolation, without rewrites."""
    nodes = case.model.nodes
    isolated = compare_isolated_nodes(case, case.model, party, trace)
    case.keep_errors(party.name, "isolated", isolated.compared)
    surviving = isolated.compared.keys() | trace.feed.keys() | set(case.model.constants)
    findings: list[WrongNodes] = []
    for name, new_deviation in isolated.wrong:
        # A tensor that cannot be returned, such as bfloat16, is computed together with the nodes
        # that read it.
        region = region_before(case.model.graph, name, surviving)
        if any(finding.region == region for finding in findings):
            continue  # Another output of the same node.
        within = [nodes[index] for index in region]
        is_flip = _is_flip(new_deviation, within)
        is_step = _is_one_step(case, new_deviation, within, trace.values[name])
        if is_step or not is_flip:
            findings.append(
                WrongNodes(region, name, new_deviation, len(region) > 1, is_flip, is_step)
            )
    return findings


def wrong_regions(case: Case, party: SuspectedParty, trace: Trace) -> list[WrongNodes]:
    """Return the nodes that differ in the executed graph.
    Large regions are narrowed if they also differ with fewer rewrites.

    Raises:
        BackendError: the backend cannot run its graph in parts.
    """
    every = _wrong_regions(case, party, trace, None)
    one_step = [finding for finding in every if finding.is_step]
    findings = [
        recheck_place(case, party, trace, narrow)
        for finding in every
        if not finding.is_step
        for narrow in _find_between_steps(case, party, trace, finding)
    ]
    if all(len(finding.region) <= _FEW for finding in findings):
        return [*findings, *one_step]
    if not party.levels:
        return [*(_shrink_place(case, party, trace, finding) for finding in findings), *one_step]
    for level in party.levels:
        try:
            narrow = _wrong_regions(case, party, trace, level)
        except PolygraphyException:
            continue
        narrow = [finding for finding in narrow if not finding.is_step]
        findings = [_narrowest_place(finding, narrow) for finding in findings]
    return [*findings, *one_step]


def _narrowest_place(finding: WrongNodes, findings: Sequence[WrongNodes]) -> WrongNodes:
    """Return the fewest nodes among `findings` that lie within `finding`;
    `finding` itself if there are none."""
    within = [
        other_place for other_place in findings if set(other_place.region) < set(finding.region)
    ]
    return min(within, key=lambda finding: len(finding.region), default=finding)


def recheck_place(
    case: Case, party: SuspectedParty, trace: Trace, finding: WrongNodes
) -> WrongNodes:
    """Return the nodes, marked as incorrect in isolation if a single node fails intermittently,
    such as a kernel that reads foreign memory."""
    for _ in range(_SAMPLES if len(finding.region) == 1 else 0):
        run = _compute_run(case, party, trace, finding.region, plain=True)
        if run is not None and run[0].is_wrong:
            return WrongNodes(finding.region, finding.tensor, run[0], fused=False)
    return finding


def _compute_run(
    case: Case, party: SuspectedParty, trace: Trace, run: Sequence[int], *, plain: bool
) -> tuple[Deviation, Any] | None:
    """Return the deviation of the last of some consecutive nodes run together, and its value.
    The result is None if unknown.
    """
    last = case.model.nodes[run[-1]]
    tensor = last.makes[0]
    value = compute_part(case.model, run, trace.all_values, party, plain=plain).get(tensor)
    if value is None or tensor not in trace.values:
        return None
    return judge_tensor(value, trace.values[tensor], 0.0, last.operator), value


def _shrink_place(
    case: Case, party: SuspectedParty, trace: Trace, finding: WrongNodes
) -> WrongNodes:
    """Return the fewest consecutive of some nodes that a backend computes incorrectly in isolation;
    all of them if all are needed."""
    region = finding.region
    for size in range(2, len(region) if _FEW < len(region) <= _MANY else 0):
        for run in (region[i : i + size] for i in range(len(region) - size + 1)):
            nodes = [case.model.nodes[index] for index in run]
            computed_run = _compute_run(case, party, trace, run, plain=False)
            if computed_run is None or not computed_run[0].is_wrong:
                continue
            new_deviation, value = computed_run
            tensor = nodes[-1].makes[0]
            if _is_flip(new_deviation, nodes) or _is_step(case, new_deviation, nodes):
                continue
            if _is_one_step(case, new_deviation, nodes, trace.values[tensor]):
                continue
            if not is_explained_by_rounding(case, run, tensor, value, trace):
                return WrongNodes(run, tensor, new_deviation, fused=True)
    return finding


def _find_between_steps(
    case: Case, party: SuspectedParty, trace: Trace, finding: WrongNodes
) -> list[WrongNodes]:
    """Return the parts of a large region that are incorrect between quantized tensors.
    The result is empty if single steps explain everything, else the region.
    """
    graph, nodes = case.model.graph, case.model.nodes
    ends = {
        name
        for index in finding.region
        for name in nodes[index].makes
        if nodes[index].operator == "QuantizeLinear" and name in trace.values
    }
    if len(finding.region) <= _FEW or not ends - {finding.tensor}:
        return [finding]
    names = {name for index in finding.region for name in nodes[index].makes}
    outside = {name for index in finding.region for name in nodes[index].reads} - names
    findings: list[WrongNodes] = []
    values = trace.all_values
    own_values: dict[str, Any] = {}
    for name in sorted({*ends, finding.tensor}, key=graph.producers.__getitem__):
        region = region_before(graph, name, (ends | outside) - {name})
        try:
            part = cut_part(case.model, region, values, [name])
            compute = part.load(party)
            value = compute(part.feed)[name]
            own_values[name] = compute(
                {n: own_values.get(n, array) for n, array in part.feed.items()}
            )[name]
        except PolygraphyException:
            return [finding]
        off = deviation(value, trace.values[name])
        within = [nodes[index] for index in region]
        is_step = _is_step(case, off, within) or _is_one_step(case, off, within, trace.values[name])
        if off.is_wrong and not _is_flip(off, within) and not is_step:
            findings.append(WrongNodes(region, name, off, fused=True))
    after = deviation(own_values[finding.tensor], trace.values[finding.tensor])
    is_all = after.is_wrong and _A_STEP * after.largest >= finding.deviation.largest
    return findings if findings or is_all else [finding]


def _wrong_regions(
    case: Case, party: SuspectedParty, trace: Trace, level: str | None
) -> list[WrongNodes]:
    """Return the wrong nodes and fused groups of a backend, in the graph that it executes.
    The result is empty if it does not show one.
    """
    executed = party.runtime_graph(case.model.proto, level=level)
    if executed is None:
        return []
    rewritten = open_model(executed)
    graph, nodes = case.model.graph, case.model.nodes
    isolated = compare_isolated_nodes(case, rewritten, party, trace)
    if level is None:
        case.keep_errors(party.name, "rewritten", isolated.compared)
    surviving = isolated.compared.keys() | trace.feed.keys() | set(case.model.constants)
    findings: list[WrongNodes] = []
    for name, new_deviation in isolated.wrong:
        # If a node was copied or removed, it may read other tensors than in the model.
        region = region_before(graph, name, read_by_region(rewritten.graph, name, surviving))
        within = [nodes[index] for index in region]
        if (
            len(region) > _WHOLE
            or _is_flip(new_deviation, within)
            or _is_step(case, new_deviation, within)
        ):
            continue
        if _is_cut_off(case, name, isolated.values[name], trace):
            continue
        taking_part = missing_nodes(graph, region, rewritten.graph, name)
        if _is_one_step(case, new_deviation, within, trace.values[name]):
            findings.append(WrongNodes(taking_part, name, new_deviation, fused=True, is_step=True))
            continue
        explained = not all(nodes[index].operator == "Cast" for index in taking_part) and (
            is_explained_by_rounding(case, region, name, isolated.values[name], trace)
        )
        # In half precision, many numbers are equal, so sorting and similar nodes may exchange any
        # of them.
        jumps = any(nodes[index].is_discontinuous for index in region) and not any(
            getattr(trace.values.get(name), "dtype", np.dtype(bool)).name in HALF
            for index in region
            for name in nodes[index].makes
        )
        if explained and not (jumps and new_deviation.share > _EVERYWHERE):
            continue
        certain_findings = [finding for finding in findings if not finding.is_step]
        if not any(set(taking_part) <= set(finding.region) for finding in certain_findings):
            finding = WrongNodes(taking_part, name, new_deviation, fused=True, explained=explained)
            findings.append(evolve(finding, computed=region))
    return findings


def _is_flip(new_deviation: Deviation, nodes: Sequence[Node]) -> bool:
    """Return whether a few elements were rounded to the next quantization step."""
    if not any(node.is_discontinuous for node in nodes):
        return False
    is_chain = nodes[-1].operator == "QuantizeLinear" and any(
        n.operator not in _STEPPING for n in nodes
    )
    if (
        is_chain
        and new_deviation.largest <= 1
        and (new_deviation.share <= ONE_STEP or new_deviation.count <= 1)
    ):
        return True
    return new_deviation.share <= FLIPS or new_deviation.count <= 1 < _FEW <= 1 / max(
        new_deviation.share, 1e-9
    )


def _is_step(case: Case, new_deviation: Deviation, nodes: Sequence[Node]) -> bool:
    """Return whether nodes that are rewritten to integer arithmetic differ by less than one 8-bit
    step, or by one step in a few elements; more elements may differ if a function is
    approximated."""
    makers = case.model.graph.producers
    before = (makers[name] for node in nodes for name in node.reads if name in makers)
    if not any(case.model.nodes[index].operator == "DequantizeLinear" for index in before):
        return False
    computing = next(
        (node.operator for node in reversed(nodes) if node.operator not in _STEPPING), ""
    )
    step = _quantization_step(case, nodes)
    if not step:
        return new_deviation.relative <= _STEP
    many = _table_share(new_deviation) if computing in BOUNDED else ONE_STEP
    return new_deviation.largest <= _A_STEP * step and new_deviation.share <= many


def _is_one_step(
    case: Case, new_deviation: Deviation, nodes: Sequence[Node], expected: Any
) -> bool:
    """Return whether nodes quantize their output to integers, once, and differ by at most one step
    from the expected values, in any share of the elements."""
    is_requantized = nodes[0].operator == "DequantizeLinear" and all(
        node.operator in _STEPPING for node in nodes
    )
    if is_requantized or sum(map(_is_quantizing, nodes)) > 1:
        # If a backend removes one of two Q/DQ pairs, results can differ by more than a step.
        return False
    step = 0.0 if is_float_code(expected) else _quantization_step(case, nodes)
    return bool(step) and new_deviation.largest <= _A_STEP * step


def _table_share(new_deviation: Deviation) -> float:
    """Return the share of elements in which a lookup table may differ by a step;
    larger for few elements."""
    few = float(
        np.sqrt(_USUALLY * (1 - _USUALLY) * new_deviation.share / max(new_deviation.count, 1))
    )
    return max(COARSELY, _USUALLY + 3 * few)


def _is_quantizing(node: Node) -> bool:
    """Return whether a node computes quantized codes."""
    return node.op in _QUANTIZING or node.op.startswith("QLinear")


def _quantization_step(case: Case, nodes: Sequence[Node]) -> float:
    """Return the step by which the last of some nodes quantizes its output.
    The result is 0 if it does not, or has several scales."""
    for node in reversed(nodes):
        if _is_quantizing(node):
            return 1.0
        if node.operator == "DequantizeLinear":
            weights = case.model.graph.constants
            scale = weights[node.reads[1]].values if node.reads[1] in weights else None
            return float(scale.reshape(-1)[0]) if scale is not None and scale.size == 1 else 0.0
        if node.operator not in MOVES:
            break
    return 0.0


def _is_cut_off(case: Case, tensor: str, value: Any, trace: Trace) -> bool:
    """Return whether a tensor differs only beyond the range in which all its readers quantize it,
    as with a backend that quantizes earlier."""
    nodes = case.model.nodes
    readers = [index for index, node in enumerate(nodes) if tensor in node.reads]
    if tensor in case.model.outputs or not readers:
        return False
    if any(nodes[index].operator != "QuantizeLinear" for index in readers):
        return False
    values = trace.all_values
    values[tensor] = value
    part = compute_part(case.model, readers, values, trace.party)
    return bool(part) and not any(
        deviation(part[name], trace.values[name]).is_wrong
        for index in readers
        for name in nodes[index].makes
        if name in part and name in trace.values
    )


def is_explained_by_rounding(
    case: Case, region: Sequence[int], tensor: str, value: Any, trace: Trace
) -> bool:
    """Return whether different rounding between nodes explains a tensor:
    nearly each element is within the effect of moving their intermediate values by an ulp."""
    expected = trace.values[tensor]
    loaded: dict[int, Compute] = {}
    try:
        samples = [
            compute_with_noise(case, region, trace, seed, {tensor}, loaded)[tensor]
            for seed in range(_SAMPLES)
        ]
    except PolygraphyException:  # A node that cannot run by itself is not explained.
        return False
    before = deviation(value, expected)
    if isinstance(expected, np.ndarray) and not is_float(expected):
        return _are_unstable(value, expected, samples)
    after = deviation(value, expected, np.asarray(spread(samples, expected)) / 8)
    return not after.is_wrong or (after.count < before.count / 4 and np.isfinite(after.largest))


def _are_unstable(value: Any, expected: Any, samples: Sequence[Any]) -> bool:
    """Return whether moving earlier numbers by an ulp changes nearly all differing whole numbers,
    such as indices of a selection; their count may change as well."""
    if np.shape(value) != expected.shape:
        return any(np.shape(sample) != expected.shape for sample in samples)
    different = value != expected
    unstable = np.zeros(expected.shape, bool)
    for sample in samples:
        unstable |= True if np.shape(sample) != expected.shape else sample != expected
    stable = int(np.count_nonzero(different & ~unstable))
    return stable < int(np.count_nonzero(different)) / 4


def compute_with_noise(
    case: Case,
    region: Sequence[int],
    trace: Trace,
    seed: int,
    wanted: Set[str],
    loaded: MutableMapping[int, Compute],
) -> Mapping[str, Any]:
    """Return some tensors, computed node by node with inputs moved by about an ulp.
    Loaded nodes are reused.
    """
    values, nodes = trace.all_values, case.model.nodes
    last = {name: index for index in region for name in nodes[index].reads}
    for index in region:
        names = nodes[index].makes
        unread = not last.keys() & {*names} and wanted & {*names}
        part = cut_part(case.model, [index], values, [*unread] if unread else None)
        inputs = enumerate(part.feed.items())
        moved_inputs = {
            name: move_by_epsilons(array, 97 * seed + index + i) for i, (name, array) in inputs
        }
        if index not in loaded:
            loaded[index] = part.load(trace.party, plain=True)
        own_values = loaded[index](moved_inputs)
        values.update({name: v for name, v in own_values.items() if name in wanted or name in last})
        for name in moved_inputs:  # Free tensors that no later node reads.
            if last[name] == index and name not in wanted:
                values.pop(name, None)
    return values


def first_non_finite(case: Case, trace: Trace) -> Culprit | None:
    """Return the culprit for the first infinity that becomes NaN, or else the first NaN, such as a
    mask that excludes everything; None if there is neither."""
    values = trace.all_values
    first = None
    for index, node in enumerate(case.model.nodes):
        bad = [name for name in node.makes if is_broken(values.get(name))]
        if not bad:
            continue
        is_nan = any(map(has_nan, map(values.get, bad)))
        if not any(is_broken(values.get(name)) for name in node.reads):
            if is_nan:
                first = (index, bad[0])
                break
            if not _reads_infinity(case, node):
                first = first or (index, bad[0])
        elif is_nan and not any(has_nan(values.get(name)) for name in node.reads):
            first = first or (index, bad[0])
            break
    if first is None:
        return None
    index, tensor = first
    node, value = case.model.nodes[index], values[tensor]
    nan, inf = int(np.isnan(value).sum()), int(np.isinf(value).sum())
    facts = [evidence.not_a_number(tensor, nan, inf, value.size)]
    facts += [_describe_input(name, values[name]) for name in node.reads if name in values]
    facts += _describe_weights(case, node)
    note = remedies.USE_REAL_DATA if case.is_made_up else ""
    is_narrow = value.dtype.name in HALF and not nan
    return Culprit(
        [node.label],
        tensor,
        MODEL,
        "overflow" if is_narrow else "nan",
        facts=facts,
        remedy=Remedy(note=note),
        op=node.operator,
    )


def _reads_infinity(case: Case, node: Node) -> bool:
    """Return whether a node reads an infinite weight, such as a mask."""
    return any(map(is_broken, _weights(case, node).values()))


def _weights(case: Case, node: Node) -> Mapping[str, Any]:
    """Return the weights of a node with known values."""
    read = [name for name in node.reads if name in case.model.constants]
    if not read:
        return {}
    weights = case.model.graph.constants
    return {name: weights[name].values for name in read if name in weights}


def _describe_weights(case: Case, node: Node) -> Iterator[Fact]:
    """Yield facts on the weights of a node that cause NaN or infinity."""
    for name, values in _weights(case, node).items():
        if values is None or not is_float(array := np.asarray(values)):
            continue
        operand = (node.operator, [*node.reads].index(name))
        for problem, bad in (
            ("not finite", ~np.isfinite(array)),
            ("negative", (array < 0) if operand == _VARIANCE else ()),
            ("zero", (array == 0) if operand == _DIVISOR else ()),
        ):
            if np.any(bad):
                at = tuple(map(int, np.argwhere(bad)[0]))
                count = int(np.count_nonzero(bad))
                yield evidence.bad_weight(name, float(array[at]), at, problem, count, array.size)


def _describe_input(name: str, value: Any) -> Fact:
    """Return the fact that states the range of an input."""
    if not is_float(value) or not value.size:
        return evidence.input_type(name, str(getattr(value, "dtype", type(value).__name__)))
    negative, zero = int((value < 0).sum()), int((value == 0).sum())
    least, largest = float(value.min()), float(value.max())
    return evidence.input_range(name, least, largest, negative, zero, value.size)
