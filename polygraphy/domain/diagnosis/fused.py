"""The nodes of a model that a backend fused into one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.domain.arithmetic.passes.selection import quantile
from polygraphy.domain.diagnosis.pairing import Pairing
from polygraphy.domain.diagnosis.two_models import Suspect
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, attribute_text

_OF_ACTIVATION = frozenset({"activation", "activation_params"})
_NORMS = "BatchNormalization"
_WEIGHED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def region(model: Graph, tensor: str, kept_names: Iterable[str]) -> tuple[int, ...]:
    """Return the nodes that compute a tensor from tensors that were kept:
    the nodes that one fused node replaced.

    Args:
        model: the graph as it was written.
        tensor: the output of the one node, by its name in both graphs.
        kept_names: the tensors that the other graph has as well.
    """
    known_names = set(kept_names) - {tensor}
    nodes: set[int] = set()
    waiting = [tensor]
    while waiting:
        name = waiting.pop()
        index = model.operation_producers.get(name)
        if index is not None and index not in nodes and name not in known_names:
            nodes.add(index)
            waiting += filter(None, model.nodes[index].inputs)
    return tuple(sorted(nodes))


def nodes_behind_fused(model: Graph, fused: Graph, index: int) -> tuple[int, ...]:
    """Return the model nodes that a node of the optimized graph replaces;
    if its output was renamed there, those that read it.
    """
    producer = fused.operation_producers.keys()
    waiting, visited, nodes = [index], {index}, set[int]()
    while waiting:
        node = fused.nodes[waiting.pop()]
        for name in filter(None, node.outputs):
            if name in model.operation_producers:
                nodes.update(region(model, name, producer))
                continue
            new = {reader for reader, _ in fused.readers.get(name, ())} - visited
            visited |= new
            waiting += new
    return tuple(sorted(nodes))


def trace_suspects(
    suspects: Iterable[Suspect], pairing: Pairing, model: Graph, among: Iterable[Suspect] = ()
) -> list[Suspect]:
    """Return suspects of an optimized graph traced back to the original model.

    Args:
        suspects: in what the optimized graph, the first of the pairing, differs from the reference.
        pairing: its nodes and those of the reference.
        model: the model as it was written.
        among: all differences, where `suspects` is only some of them.
    """
    new_suspects: dict[tuple[tuple[int, ...], str], Suspect] = {}
    existing = list(suspects)
    for suspect in existing:
        nodes = _trace_suspect(suspect, [*existing, *among], pairing, model)
        if nodes is not None:
            new_suspects.setdefault((nodes.nodes, nodes.cause), nodes)
    return list(new_suspects.values())


def _trace_suspect(
    suspect: Suspect, suspects: list[Suspect], pairing: Pairing, model: Graph
) -> Suspect | None:
    """Return a difference as nodes of the model before fusion; None if it has no such nodes."""
    fused = pairing.model
    for name, _ in suspect.weights:
        if name in model.constants:
            readers = tuple(sorted({index for index, _ in model.readers.get(name, ())}))
            return evolve(suspect, nodes=readers) if readers else None
    indices: tuple[int, ...] = tuple(
        sorted(
            {
                replaced_node
                for index in suspect.nodes
                for replaced_node in nodes_behind_fused(model, fused, index)
            }
        )
    )
    if not indices:
        return None
    if suspect.weights:
        indices = _nodes_behind_weights(suspect, pairing, model, indices)
        return _trace_folded(suspect, suspects, pairing, model, indices)
    if suspect.cause in ("attribute", "epsilon"):
        return _attribute(suspect, pairing, model, indices)
    if suspect.change.kind == "missing_node" and len(suspect.nodes) == 1:
        # The missing node follows the last of the fused nodes.
        outputs = (
            model.operation_producers.get(name) for name in fused.nodes[suspect.nodes[0]].outputs
        )
        last = tuple(index for index in outputs if index in indices)
        if last and model.nodes[last[0]].op != fused.nodes[suspect.nodes[0]].op:
            fact = changes.missing_node(suspect.change.values["op"], [model.nodes[last[0]].op])
            return evolve(suspect, nodes=last[:1], change=fact)
    traced = {index for node in suspect.nodes for index in _nodes_with_operator(model, fused, node)}
    return _with_replaced_nodes(suspect, tuple(sorted(traced)))


def _nodes_with_operator(model: Graph, fused: Graph, index: int) -> tuple[int, ...]:
    """Return the node of the model before fusion with the operator of a fused node; all nodes that
    it replaced if there is not exactly one."""
    replaced_nodes = tuple(nodes_behind_fused(model, fused, index))
    op = fused.nodes[index].op.replace("Fused", "")
    same = tuple(node for node in replaced_nodes if model.nodes[node].op == op)
    return same if len(same) == 1 else replaced_nodes


def _nodes_behind_weights(
    suspect: Suspect, pairing: Pairing, model: Graph, indices: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the nodes whose folded weights the fused node of a suspect reads: one with weights,
    and its normalization; the given nodes if not exactly one fits.

    A backend may store the weights in a different order, and with zeros at the end.
    """
    inputs = pairing.model.nodes[suspect.nodes[0]].inputs
    weight = pairing.model.constants.get(inputs[1]) if len(inputs) > 1 else None
    weighed = [index for index in indices if model.nodes[index].op in _WEIGHED]
    if weight is None or weight.values is None or len(weighed) < 2 or len(suspect.nodes) > 1:
        return indices
    found_pairs: list[tuple[int, ...]] = []
    for index in weighed:
        for norm in dict.fromkeys([_norm_behind(model, index, indices), None]):
            folded = _fold_weight(model, index, norm)
            if folded is not None and _has_same_values(
                np.asarray(weight.values, np.float64), folded
            ):
                found_pairs.append((index,) if norm is None else (index, norm))
                break
    return found_pairs[0] if len(found_pairs) == 1 else indices


def _norm_behind(model: Graph, index: int, indices: tuple[int, ...]) -> int | None:
    """Return the normalization that reads the output of a node; None if none of `indices` does."""
    read = model.readers.get(model.nodes[index].outputs[0], ())
    norms = (reader for reader, position in read if position == 0 and reader in indices)
    return next((reader for reader in norms if model.nodes[reader].op == _NORMS), None)


def _fold_weight(model: Graph, index: int, norm: int | None) -> Any:
    """Return the weight of a node, times the factor of its normalization per channel, or None.
    The result is None if these are not constants, or do not fit.
    """
    node = model.nodes[index]
    weight = next(
        (model.constants[name] for name in node.inputs[1:2] if name in model.constants), None
    )
    if weight is None or weight.values is None:
        return None
    values = np.asarray(weight.values, np.float64)
    if norm is None:
        return values
    read = [model.constants.get(name) for name in model.nodes[norm].inputs[1:5:3]]
    pair = [
        np.asarray(weight.values, np.float64)
        for weight in read
        if weight and weight.values is not None
    ]
    if len(pair) < 2 or pair[0].shape != pair[1].shape:
        return None
    factor = pair[0] / np.sqrt(pair[1] + float(model.nodes[norm].attribute("epsilon", 1e-5)))
    is_first = node.op == "Conv" or (node.op == "Gemm" and node.attribute("transB", 0))
    axis = 0 if is_first else 1 if node.op == "ConvTranspose" else values.ndim - 1
    if axis >= values.ndim or values.shape[axis] != factor.size:
        return None
    return np.moveaxis(np.moveaxis(values, axis, -1) * factor.reshape(-1), -1, axis)


def _has_same_values(stored: Any, values: Any) -> bool:
    """Return whether an array has the values of another in any order, apart from zeros."""
    if stored.size < values.size:
        return False
    padded = np.concatenate([values.reshape(-1), np.zeros(stored.size - values.size)])
    limit = 1e-4 * float(np.max(np.abs(values), initial=0))
    return bool(np.allclose(np.sort(stored.reshape(-1)), np.sort(padded), rtol=0, atol=limit))


def expand_replacement(suspect: Suspect, pairing: Pairing) -> Suspect:
    """Return a suspect that the reference has as a different operator,
    with all nodes that this operator replaces."""
    if suspect.change.kind != "other_operator" or len(suspect.twins) != 1:
        return suspect
    [(index, twin)] = suspect.twins
    model, reference = pairing.model, pairing.reference
    names = {tensor: name for name, tensor in pairing.tensors.items()}
    read = [
        name for name in reference.nodes[twin].inputs if name and name not in reference.constants
    ]
    kept_names = {names[name] for name in read if name in names}
    tensor = next(filter(None, model.nodes[index].outputs))
    if (
        not read
        or not all(names.get(name) in model.operation_producers for name in read)
        or tensor in kept_names
    ):
        return suspect
    nodes = region(model, tensor, kept_names)
    makers = {model.operation_producers[name] for name in kept_names}
    is_between = not makers & {*nodes} and _reads_only(model, nodes, kept_names)
    return evolve(suspect, nodes=nodes) if is_between and len(nodes) > 1 else suspect


def _reads_only(model: Graph, nodes: tuple[int, ...], kept_names: Iterable[str]) -> bool:
    """Return whether some nodes read only tensors that they compute, weights and `kept_names`."""
    reads_only = {
        *kept_names,
        *model.constants,
        *(name for node in nodes for name in model.nodes[node].outputs),
    }
    return all(name in reads_only for node in nodes for name in model.nodes[node].inputs if name)


def is_open_trace(suspect: Suspect, model: Graph) -> bool:
    """Return whether it is unknown which of several nodes a suspect is:
    an attribute or operator of fused nodes, or a folded weight of unknown origin. A weight that
    several nodes read belongs to all of them."""
    is_folded = suspect.weights and not any(name in model.constants for name, _ in suspect.weights)
    return suspect.is_any or (bool(is_folded) and len(suspect.nodes) > 1)


def _trace_folded(
    suspect: Suspect,
    suspects: list[Suspect],
    pairing: Pairing,
    model: Graph,
    indices: tuple[int, ...],
) -> Suspect:
    """Return a folded weight as a suspect of the original: of the convolution if only its weight
    differs, else of the normalization.
    """
    norms = tuple(index for index in indices if model.nodes[index].op == _NORMS)
    indexes = tuple(index for index in indices if model.nodes[index].op in _WEIGHED)
    suspect_node = pairing.model.nodes[suspect.nodes[0]]
    differing = {
        position
        for position, name in enumerate(suspect_node.inputs)
        if any(name == text for suspect in suspects for text, _ in suspect.weights)
    }
    if not norms:
        return evolve(suspect, nodes=indexes or indices)
    if differing == {1}:
        return evolve(suspect, nodes=indexes or indices)
    if len(norms) > 1:
        with_bias = [index for index in indexes if len(model.nodes[index].inputs) > 2]
        return evolve(suspect, nodes=tuple(sorted([*norms, *with_bias])))
    if differing == {2}:
        bare = tuple(index for index in indexes if len(model.nodes[index].inputs) < 3)
        biased = [node for node in model.nodes if node.op == "Conv" and len(node.inputs) > 2]
        # If other convolutions have a bias, the one without a bias has lost it.
        has_lost_bias = bare and len(biased) > sum(node.op == "Conv" for node in model.nodes) / 2
        if has_lost_bias and not _is_explained_by_norm(suspect, pairing, model, norms[0]):
            return evolve(suspect, nodes=bare, cause="structure")
        scaled = tuple(i for i in indexes if _is_own_bias(suspect, pairing, model, i, norms[0]))
        own_biases = [index for index in indexes if len(model.nodes[index].inputs) > 2]
        if scaled or not own_biases or _scales_offset(suspect, pairing, model, norms[0]):
            return evolve(suspect, nodes=scaled or norms)
        # A bias of the convolution and an offset of the normalization add up to one number.
        return evolve(suspect, nodes=tuple(sorted({*own_biases, *norms})))
    epsilon = _folding_epsilon(suspect, pairing, model, norms[0])
    if epsilon is not None:
        change = changes.other_folded_epsilon(_NORMS, epsilon)
        return evolve(suspect, nodes=norms, cause="epsilon", change=change)
    return evolve(suspect, nodes=norms)


def _is_explained_by_norm(suspect: Suspect, pairing: Pairing, model: Graph, norm: int) -> bool:
    """Return whether a bias difference is explained by its normalization: it affects some channels,
    or scales the normalization's offset.
    """
    [(own_name, other_name), *_] = suspect.weights
    weights = [pairing.model.constants.get(own_name), pairing.reference.constants.get(other_name)]
    if all(weight is not None and weight.values is not None for weight in weights):
        first, second = (np.asarray(weight.values, np.float64) for weight in weights if weight)
        if first.shape == second.shape and np.isclose(second, first, 1e-4, 1e-6).mean() > 0.5:
            return True
    return _scales_offset(suspect, pairing, model, norm)


def _scales_offset(suspect: Suspect, pairing: Pairing, model: Graph, norm: int) -> bool:
    """Return whether a bias differs by a multiple of an offset of its normalization."""
    [(own_name, other_name), *_] = suspect.weights
    read = model.nodes[norm].inputs[1:5]
    weights = [pairing.model.constants.get(own_name), pairing.reference.constants.get(other_name)]
    weights += [model.constants.get(name) for name in read]
    arrays = [
        np.asarray(weight.values, np.float64)
        for weight in weights
        if weight and weight.values is not None
    ]
    arrays = _without_padding(arrays)
    if len(arrays) < 6 or len({array.shape for array in arrays}) > 1:
        return False
    weight, reference_weight, scale, bias, mean, variance = arrays
    apart = reference_weight - weight
    effective_mean = (
        mean * scale / np.sqrt(variance + float(model.nodes[norm].attribute("epsilon", 1e-5)))
    )
    size = float(np.linalg.norm(apart))
    shares = (
        (array, float(apart @ array) / max(float(array @ array), 1e-30))
        for array in (bias, effective_mean)
    )
    return any(np.linalg.norm(apart - share * array) < 1e-2 * size for array, share in shares)


def _without_padding(arrays: list[Any]) -> list[Any]:
    """Return arrays without the zeros that a backend stores at the end of the first ones."""
    size = arrays[-1].size if arrays else 0
    return [
        array[:size] if array.ndim == 1 and array.size > size and not array[size:].any() else array
        for array in arrays
    ]


def _is_own_bias(suspect: Suspect, pairing: Pairing, model: Graph, conv: int, norm: int) -> bool:
    """Return whether a folded bias differs by a multiple of the convolution's own bias."""
    [(own_name, other_name), *_] = suspect.weights
    read = [*model.nodes[conv].inputs[2:3], *model.nodes[norm].inputs[1:5:3]]
    weights = [pairing.model.constants.get(own_name), pairing.reference.constants.get(other_name)]
    weights += [model.constants.get(name) for name in read]
    arrays = [
        np.asarray(weight.values, np.float64)
        for weight in weights
        if weight and weight.values is not None
    ]
    arrays = _without_padding(arrays)
    if len(arrays) < 5 or len({array.shape for array in arrays}) > 1:
        return False
    weight, reference_weight, bias, scale, variance = arrays
    added = bias * scale / np.sqrt(variance + float(model.nodes[norm].attribute("epsilon", 1e-5)))
    apart = reference_weight - weight
    share = float(apart @ added) / max(float(added @ added), 1e-30)
    return bool(np.linalg.norm(apart - share * added) < 1e-2 * np.linalg.norm(apart))


def _folding_epsilon(suspect: Suspect, pairing: Pairing, model: Graph, norm: int) -> float | None:
    """Return the epsilon used to fold the reference, if one value explains every channel;
    else None.
    """
    node = model.nodes[norm]
    variance = model.constants.get(node.inputs[4] if len(node.inputs) > 4 else "")
    if variance is None or variance.values is None:
        return None
    index = suspect.nodes[0]
    own_node, reference_node = (
        pairing.model.nodes[index],
        pairing.reference.nodes[pairing.nodes[index]],
    )
    weight = pairing.model.constants.get(own_node.inputs[1])
    other_weight = pairing.reference.constants.get(reference_node.inputs[1])
    if (
        weight is None
        or other_weight is None
        or weight.values is None
        or other_weight.values is None
    ):
        return None
    flat, array = (
        np.asarray(w.values, np.float64).reshape(w.shape[0], -1) for w in (weight, other_weight)
    )
    spread = np.asarray(variance.values, np.float64).reshape(-1)
    if flat.shape != array.shape or len(spread) != len(flat):
        return None
    ratio = np.linalg.norm(flat, axis=1) / np.maximum(np.linalg.norm(array, axis=1), 1e-30)
    value = float(node.attribute("epsilon", 1e-5))
    epsilon = ratio**2 * (spread + value) - spread
    middle = quantile(epsilon, 0.5)
    close = np.allclose(epsilon, middle, atol=1e-3 * float(np.max(spread)) + 1e-6)
    return max(middle, 0.0) if close and abs(middle - value) > 1e-6 else None


def _attribute(
    suspect: Suspect, pairing: Pairing, model: Graph, indices: tuple[int, ...]
) -> Suspect:
    """Return a difference in an attribute as one of the model node that had the attribute."""
    node = pairing.model.nodes[suspect.nodes[0]]
    name = suspect.change.values["name"]
    attribute = next((attribute for attribute in node.attributes if attribute.name == name), None)
    if name == "epsilon":
        value = None if attribute is None else float(attribute.value)
        tiny = tuple(
            index
            for index in indices
            if model.nodes[index].op == "Add"
            and any(
                _single_element(model, input_name) == value
                for input_name in model.nodes[index].inputs
            )
        )
        if tiny:
            return evolve(suspect, nodes=tiny)
    if name == "alpha" and attribute is not None:
        # Fusion turned a product with a constant into the `alpha` of the matrix product.
        scaling = tuple(
            index
            for index in indices
            if model.nodes[index].op in ("Mul", "Div")
            and any(
                _equals_factor(model, input_name, float(attribute.value))
                for input_name in model.nodes[index].inputs
            )
        )
        if scaling:
            return evolve(suspect, nodes=scaling, cause="weight")
    if name in _OF_ACTIVATION:
        return _activation(suspect, pairing, model, indices)
    narrowed = _nodes_behind_weights(suspect, pairing, model, indices)
    changed_indices = tuple(
        index
        for index in narrowed
        if attribute is not None
        and any(
            attribute_of_twin.name == name
            and attribute_text(attribute_of_twin) == attribute_text(attribute)
            for attribute_of_twin in model.nodes[index].attributes
        )
    )
    if changed_indices:
        return _with_replaced_nodes(suspect, changed_indices)
    return _with_replaced_nodes(suspect, narrowed)


def _activation(
    suspect: Suspect, pairing: Pairing, model: Graph, indices: tuple[int, ...]
) -> Suspect:
    """Return a difference in the activation of a fused node as one of the model;
    that is the activation node, or the node after which it is missing."""
    [(index, twin), *_] = suspect.twins
    activation, expected = (
        str(node.attribute("activation", ""))
        for node in (pairing.model.nodes[index], pairing.reference.nodes[twin])
    )
    narrowed = _nodes_behind_weights(suspect, pairing, model, indices)
    weighed = [position for position in narrowed if model.nodes[position].op in _WEIGHED]
    if len(weighed) != 1:
        return _with_replaced_nodes(suspect, narrowed)
    norm = _norm_behind(model, weighed[0], indices)
    last = _bias_behind(model, weighed[0] if norm is None else norm, indices)
    if expected and not activation:
        change = changes.missing_node(expected, [model.nodes[last].op])
        return evolve(suspect, nodes=(last,), cause="structure", change=change, attribute="")
    read = {
        reader for name in model.nodes[last].outputs for reader, _ in model.readers.get(name, ())
    }
    if len(read) != 1:
        return _with_replaced_nodes(suspect, narrowed)
    behind = tuple(read)
    if activation == expected:
        return evolve(suspect, nodes=behind)
    op = model.nodes[behind[0]].op
    change = changes.other_operator(op, expected) if expected else changes.extra_node(op)
    return evolve(suspect, nodes=behind, cause="structure", change=change, attribute="")


def _bias_behind(model: Graph, index: int, indices: Sequence[int]) -> int:
    """Return the Add that alone reads a node, if it is one of `indices`; else the node."""
    read = {
        reader for name in model.nodes[index].outputs for reader, _ in model.readers.get(name, ())
    }
    is_bias = len(read) == 1 and read <= {*indices}
    return next(iter(read)) if is_bias and model.nodes[min(read)].op == "Add" else index


def _with_replaced_nodes(suspect: Suspect, nodes: tuple[int, ...]) -> Suspect:
    """Return a suspect extended by the nodes that its own nodes replaced;
    one of them is at fault."""
    return evolve(suspect, nodes=nodes, is_any=len(nodes) > len(suspect.nodes))


def _single_element(model: Graph, name: str) -> float | None:
    """Return the value of a weight with one element; None for other tensors."""
    weight = model.constants.get(name)
    if weight is None or weight.values is None or np.size(weight.values) != 1:
        return None
    return float(np.float32(np.asarray(weight.values).reshape(-1)[0]))


def _equals_factor(model: Graph, name: str, factor: float) -> bool:
    """Return whether a scalar weight equals a factor or its inverse."""
    single_element = _single_element(model, name)
    if not single_element:
        return False
    return any(
        np.isclose(value, factor, rtol=1e-5) for value in (single_element, 1 / single_element)
    )
