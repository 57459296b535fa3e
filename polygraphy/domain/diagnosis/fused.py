"""Which nodes of a model became one node of the graph that a backend made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.domain.arithmetic.passes.selection import quantile
from polygraphy.domain.diagnosis.pairing import Pairing, Side, attribute_text
from polygraphy.domain.diagnosis.two_models import Suspect
from polygraphy.domain.diagnosis.words import changes

_OF_ACTIVATION = frozenset({"activation", "activation_params"})
_NORMS = "BatchNormalization"
_WEIGHED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def region(model: Side, tensor: str, kept: Iterable[str]) -> tuple[int, ...]:
    """Return the nodes that compute a tensor from tensors that were kept: the nodes that one fused
    node replaced.

    Args:
        model: the graph as it was written.
        tensor: what the one node makes, by the name that both graphs have for it.
        kept: the tensors that the other graph has as well.
    """
    known = set(kept) - {tensor}
    found: set[int] = set()
    waiting = [tensor]
    while waiting:
        name = waiting.pop()
        index = model.producer.get(name)
        if index is not None and index not in found and name not in known:
            found.add(index)
            waiting += filter(None, model.nodes[index].inputs)
    return tuple(sorted(found))


def replaced_nodes(model: Side, fused: Side, index: int) -> tuple[int, ...]:
    """Return the model nodes that a node of the optimized graph replaces; if its output was renamed
    there, those that read it.
    """
    kept = fused.producer.keys()
    waiting, seen, found = [index], {index}, set[int]()
    while waiting:
        node = fused.nodes[waiting.pop()]
        for name in filter(None, node.outputs):
            if name in model.producer:
                found.update(region(model, name, kept))
                continue
            new = {reader for reader, _ in fused.readers.get(name, ())} - seen
            seen |= new
            waiting += new
    return tuple(sorted(found))


def trace_suspects(
    suspects: Iterable[Suspect], pairing: Pairing, model: Side, among: Iterable[Suspect] = ()
) -> list[Suspect]:
    """Return suspects of an optimized graph traced back to the original model.

    Args:
        suspects: in what the optimised graph, the first of the pairing, differs from the reference.
        pairing: its nodes and those of the reference.
        model: the model as it was written.
        among: all differences, where `suspects` is only some of them.
    """
    made: dict[tuple[tuple[int, ...], str], Suspect] = {}
    held = list(suspects)
    for suspect in held:
        nodes = _trace_suspect(suspect, [*held, *among], pairing, model)
        if nodes is not None:
            made.setdefault((nodes.nodes, nodes.cause), nodes)
    return list(made.values())


def _trace_suspect(
    suspect: Suspect, held: list[Suspect], pairing: Pairing, model: Side
) -> Suspect | None:
    """Return a difference as nodes of the model before fusion; None if it has no such nodes."""
    fused = pairing.model
    for name, _ in suspect.weights:
        if name in model.weights:
            readers = tuple(sorted({index for index, _ in model.readers.get(name, ())}))
            return evolve(suspect, nodes=readers) if readers else None
    indices: tuple[int, ...] = tuple(
        sorted({one for index in suspect.nodes for one in replaced_nodes(model, fused, index)})
    )
    if not indices:
        return None
    if suspect.weights:
        indices = _folded_nodes(suspect, pairing, model, indices)
        return _trace_folded(suspect, held, pairing, model, indices)
    if suspect.cause in ("attribute", "epsilon"):
        return _attribute(suspect, pairing, model, indices)
    if suspect.change.kind == "lost_node" and len(suspect.nodes) == 1:
        # What is missing stands behind the last of the nodes that were fused.
        made = (model.producer.get(name) for name in fused.nodes[suspect.nodes[0]].outputs)
        last = tuple(index for index in made if index in indices)
        if last and model.nodes[last[0]].op != fused.nodes[suspect.nodes[0]].op:
            lost = changes.lost_node(suspect.change.values["op"], [model.nodes[last[0]].op])
            return evolve(suspect, nodes=last[:1], change=lost)
    ops = {fused.nodes[index].op.replace("Fused", "") for index in suspect.nodes}
    same = tuple(index for index in indices if model.nodes[index].op in ops)
    return evolve(suspect, nodes=same if len(same) == 1 else indices)


def _folded_nodes(
    suspect: Suspect, pairing: Pairing, model: Side, indices: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the nodes whose folded weights the fused node of a suspect reads: one with weights,
    and its normalization; the given nodes if not exactly one fits.

    A backend may store the weights in another order, and with zeros at the end.
    """
    inputs = pairing.model.nodes[suspect.nodes[0]].inputs
    held = pairing.model.weights.get(inputs[1]) if len(inputs) > 1 else None
    weighed = [index for index in indices if model.nodes[index].op in _WEIGHED]
    if held is None or held.values is None or len(weighed) < 2 or len(suspect.nodes) > 1:
        return indices
    found: list[tuple[int, ...]] = []
    for index in weighed:
        for norm in dict.fromkeys([_norm_behind(model, index, indices), None]):
            folded = _fold_weight(model, index, norm)
            if folded is not None and _has_same_values(np.asarray(held.values, np.float64), folded):
                found.append((index,) if norm is None else (index, norm))
                break
    return found[0] if len(found) == 1 else indices


def _norm_behind(model: Side, index: int, indices: tuple[int, ...]) -> int | None:
    """Return the normalization of what a node computes; None if none of the nodes is that."""
    read = model.readers.get(model.nodes[index].outputs[0], ())
    norms = (reader for reader, position in read if position == 0 and reader in indices)
    return next((reader for reader in norms if model.nodes[reader].op == _NORMS), None)


def _fold_weight(model: Side, index: int, norm: int | None) -> Any:
    """Return the weight of a node, times the factor of its normalization per channel; None if these
    are not constants, or do not fit.
    """
    node = model.nodes[index]
    weight = next((model.weights[name] for name in node.inputs[1:2] if name in model.weights), None)
    if weight is None or weight.values is None:
        return None
    values = np.asarray(weight.values, np.float64)
    if norm is None:
        return values
    read = [model.weights.get(name) for name in model.nodes[norm].inputs[1:5:3]]
    pair = [np.asarray(one.values, np.float64) for one in read if one and one.values is not None]
    if len(pair) < 2 or pair[0].shape != pair[1].shape:
        return None
    factor = pair[0] / np.sqrt(pair[1] + float(model.nodes[norm].attribute("epsilon", 1e-5)))
    is_first = node.op == "Conv" or (node.op == "Gemm" and node.attribute("transB", 0))
    axis = 0 if is_first else 1 if node.op == "ConvTranspose" else values.ndim - 1
    if axis >= values.ndim or values.shape[axis] != factor.size:
        return None
    return np.moveaxis(np.moveaxis(values, axis, -1) * factor.reshape(-1), -1, axis)


def _has_same_values(stored: Any, values: Any) -> bool:
    """Return whether an array has the values of another in any order, and zeros beside them."""
    if stored.size < values.size:
        return False
    padded = np.concatenate([values.reshape(-1), np.zeros(stored.size - values.size)])
    limit = 1e-4 * float(np.max(np.abs(values), initial=0))
    return bool(np.allclose(np.sort(stored.reshape(-1)), np.sort(padded), rtol=0, atol=limit))


def expand_replacement(suspect: Suspect, pairing: Pairing) -> Suspect:
    """Return a suspect, of which the reference has another operator, with all nodes that this
    operator replaces: those between the tensors that it reads and the one that it computes.
    """
    if suspect.change.kind != "other_operator" or len(suspect.twins) != 1:
        return suspect
    [(index, twin)] = suspect.twins
    mine, theirs = pairing.model, pairing.reference
    names = {other: name for name, other in pairing.tensors.items()}
    read = [name for name in theirs.nodes[twin].inputs if name and name not in theirs.weights]
    kept = {names[name] for name in read if name in names}
    tensor = next(filter(None, mine.nodes[index].outputs))
    if not read or not all(names.get(name) in mine.producer for name in read) or tensor in kept:
        return suspect
    nodes = region(mine, tensor, kept)
    makers = {mine.producer[name] for name in kept}
    is_between = not makers & {*nodes} and _reads_only(mine, nodes, kept)
    return evolve(suspect, nodes=nodes) if is_between and len(nodes) > 1 else suspect


def _reads_only(model: Side, nodes: tuple[int, ...], kept: Iterable[str]) -> bool:
    """Return whether some nodes read only tensors that they compute, weights and `kept`."""
    known = {*kept, *model.weights, *(name for one in nodes for name in model.nodes[one].outputs)}
    return all(name in known for one in nodes for name in model.nodes[one].inputs if name)


def is_open_trace(suspect: Suspect, model: Side) -> bool:
    """Return whether a suspect is a folded weight of which it is not known from which node it came;
    a weight that several nodes of the model read is all of theirs.
    """
    is_folded = suspect.weights and not any(name in model.weights for name, _ in suspect.weights)
    return bool(is_folded) and len(suspect.nodes) > 1


def _trace_folded(
    suspect: Suspect, held: list[Suspect], pairing: Pairing, model: Side, indices: tuple[int, ...]
) -> Suspect:
    """Return a folded weight as a suspect of the original: of the convolution if only its weight
    differs, else of the normalization.
    """
    norms = tuple(index for index in indices if model.nodes[index].op == _NORMS)
    others = tuple(index for index in indices if model.nodes[index].op in _WEIGHED)
    place = pairing.model.nodes[suspect.nodes[0]]
    differing = {
        position
        for position, name in enumerate(place.inputs)
        if any(name == mine for one in held for mine, _ in one.weights)
    }
    if not norms:
        return evolve(suspect, nodes=others or indices)
    if differing == {1}:
        return evolve(suspect, nodes=others or indices)
    if len(norms) > 1:
        with_bias = [index for index in others if len(model.nodes[index].inputs) > 2]
        return evolve(suspect, nodes=tuple(sorted([*norms, *with_bias])))
    if differing == {2}:
        bare = tuple(index for index in others if len(model.nodes[index].inputs) < 3)
        biased = [node for node in model.nodes if node.op == "Conv" and len(node.inputs) > 2]
        # Where other convolutions have a bias, the one that has none has lost it.
        lost = bare and len(biased) > sum(node.op == "Conv" for node in model.nodes) / 2
        if lost and not _is_of_norm(suspect, pairing, model, norms[0]):
            return evolve(suspect, nodes=bare, cause="structure")
        scaled = tuple(i for i in others if _is_own_bias(suspect, pairing, model, i, norms[0]))
        return evolve(suspect, nodes=scaled or norms)
    epsilon = _folding_epsilon(suspect, pairing, model, norms[0])
    if epsilon is not None:
        change = changes.other_folded_epsilon(_NORMS, epsilon)
        return evolve(suspect, nodes=norms, cause="epsilon", change=change)
    return evolve(suspect, nodes=norms)


def _is_of_norm(suspect: Suspect, pairing: Pairing, model: Side, norm: int) -> bool:
    """Return whether a bias difference is explained by its normalization: it affects some channels,
    or scales the normalization's offset.
    """
    [(own, other), *_] = suspect.weights
    read = model.nodes[norm].inputs[1:5]
    held = [pairing.model.weights.get(own), pairing.reference.weights.get(other)]
    held += [model.weights.get(name) for name in read]
    arrays = [np.asarray(one.values, np.float64) for one in held if one and one.values is not None]
    if len(arrays) < 6 or len({array.shape for array in arrays}) > 1:
        return False
    mine, theirs, scale, bias, mean, variance = arrays
    apart = theirs - mine
    if np.isclose(theirs, mine, 1e-4, 1e-6).mean() > 0.5:
        return True
    taken = mean * scale / np.sqrt(variance + float(model.nodes[norm].attribute("epsilon", 1e-5)))
    size = float(np.linalg.norm(apart))
    shares = ((one, float(apart @ one) / max(float(one @ one), 1e-30)) for one in (bias, taken))
    return any(np.linalg.norm(apart - share * one) < 1e-2 * size for one, share in shares)


def _is_own_bias(suspect: Suspect, pairing: Pairing, model: Side, conv: int, norm: int) -> bool:
    """Return whether a folded bias differs by a multiple of the convolution's own bias."""
    [(own, other), *_] = suspect.weights
    read = [*model.nodes[conv].inputs[2:3], *model.nodes[norm].inputs[1:5:3]]
    held = [pairing.model.weights.get(own), pairing.reference.weights.get(other)]
    held += [model.weights.get(name) for name in read]
    arrays = [np.asarray(one.values, np.float64) for one in held if one and one.values is not None]
    if len(arrays) < 5 or len({array.shape for array in arrays}) > 1:
        return False
    mine, theirs, bias, scale, variance = arrays
    added = bias * scale / np.sqrt(variance + float(model.nodes[norm].attribute("epsilon", 1e-5)))
    apart = theirs - mine
    share = float(apart @ added) / max(float(added @ added), 1e-30)
    return bool(np.linalg.norm(apart - share * added) < 1e-2 * np.linalg.norm(apart))


def _folding_epsilon(suspect: Suspect, pairing: Pairing, model: Side, norm: int) -> float | None:
    """Return the epsilon used to fold the reference, if one value explains every channel; else
    None.
    """
    node = model.nodes[norm]
    variance = model.weights.get(node.inputs[4] if len(node.inputs) > 4 else "")
    if variance is None or variance.values is None:
        return None
    index = suspect.nodes[0]
    mine, theirs = pairing.model.nodes[index], pairing.reference.nodes[pairing.nodes[index]]
    one = pairing.model.weights.get(mine.inputs[1])
    other = pairing.reference.weights.get(theirs.inputs[1])
    if one is None or other is None or one.values is None or other.values is None:
        return None
    flat, right = (np.asarray(w.values, np.float64).reshape(w.shape[0], -1) for w in (one, other))
    spread = np.asarray(variance.values, np.float64).reshape(-1)
    if flat.shape != right.shape or len(spread) != len(flat):
        return None
    ratio = np.linalg.norm(flat, axis=1) / np.maximum(np.linalg.norm(right, axis=1), 1e-30)
    held = float(node.attribute("epsilon", 1e-5))
    found = ratio**2 * (spread + held) - spread
    middle = quantile(found, 0.5)
    close = np.allclose(found, middle, atol=1e-3 * float(np.max(spread)) + 1e-6)
    return max(middle, 0.0) if close and abs(middle - held) > 1e-6 else None


def _attribute(
    suspect: Suspect, pairing: Pairing, model: Side, indices: tuple[int, ...]
) -> Suspect:
    """The node of the model that the attribute came from."""
    node = pairing.model.nodes[suspect.nodes[0]]
    name = suspect.change.values["name"]
    mine = next((one for one in node.attributes if one.name == name), None)
    if name == "epsilon":
        value = None if mine is None else float(mine.value)
        tiny = tuple(
            index
            for index in indices
            if model.nodes[index].op == "Add"
            and any(_single_element(model, one) == value for one in model.nodes[index].inputs)
        )
        if tiny:
            return evolve(suspect, nodes=tiny)
    if name == "alpha" and mine is not None:
        # A product with a number became one of a product of matrices.
        scaling = tuple(
            index
            for index in indices
            if model.nodes[index].op in ("Mul", "Div")
            and any(_makes(model, one, float(mine.value)) for one in model.nodes[index].inputs)
        )
        if scaling:
            return evolve(suspect, nodes=scaling, cause="weight")
    same = tuple(
        index
        for index in indices
        if mine is not None
        and any(
            one.name == name and attribute_text(one) == attribute_text(mine)
            for one in model.nodes[index].attributes
        )
    )
    if same:
        return evolve(suspect, nodes=same)
    if name in _OF_ACTIVATION:
        last = tuple(index for index in indices if model.nodes[index].op not in ("Conv", "Gemm"))
        return evolve(suspect, nodes=last[-1:] or indices)
    return evolve(suspect, nodes=indices)


def _single_element(model: Side, name: str) -> float | None:
    """Return the value of a weight with one element; None for other tensors."""
    weight = model.weights.get(name)
    if weight is None or weight.values is None or np.size(weight.values) != 1:
        return None
    return float(np.float32(np.asarray(weight.values).reshape(-1)[0]))


def _makes(model: Side, name: str, factor: float) -> bool:
    """Return whether a factor equals a scalar weight or its inverse."""
    held = _single_element(model, name)
    if not held:
        return False
    return any(np.isclose(one, factor, rtol=1e-5) for one in (held, 1 / held))
