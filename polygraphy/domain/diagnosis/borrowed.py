"""What a node may have been before it was changed, by what a right model has in its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from math import inf
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.arithmetic.passes.selection import quantile
from polygraphy.domain.diagnosis.two_models import cause_of_weight, change_of_weight, role_of
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, Node, attribute_text
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.sizes import without_fills
from polygraphy.domain.tensors.precision import is_float

_SAME = 1e-6
"""Relative difference up to which two weights are equal except for how they were folded: a few
float32 epsilons."""
_PLAIN = frozenset({"float", "int", "ints", "floats", "string"})
_BIASED = frozenset({"Conv", "ConvTranspose", "Gemm"})
MOVING = frozenset(
    {"Compress", "Concat", "ConcatFromSequence", "DepthToSpace", "Expand", "Flatten", "Gather",
     "GatherElements", "GatherND", "Identity", "Pad", "Reshape", "ReverseSequence", "SequenceAt",
     "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators that compute nothing."""
_COARSE = frozenset(
    {"ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less",
     "LessOrEqual", "NonZero", "Shape", "Size"}
)  # fmt: skip
"""Operators whose results are the same for many inputs."""
_PARTIAL = frozenset(
    {"Compress", "Gather", "GatherElements", "GatherND", "SequenceAt", "Slice", "Split", "TopK"}
)
"""Operators that read a part of a tensor: an equal part does not show that the rest is equal."""
ALIKE = 1e-4
"""Rounding that accumulates up to a tensor, relative to an element and to the usual size. Chosen,
not measured."""
_SPREAD = 20
"""Multiples of `ALIKE` by which the elements of an array must differ to identify it. Chosen, not
measured."""
_LOST: Mapping[str, Any] = {
    "Mul": np.multiply, "Add": np.add, "Div": np.divide, "Sub": np.subtract,
}  # fmt: skip
"""Operators that may be missing, with a weight as the second operand."""
_JOINED, _MOST_PARTS = (3, 2), 6
"""Numbers of weights that are joined, and the most weights of which they are chosen."""
_USUAL = 0.25
"""The quantile of the magnitudes that counts as the usual size: masks are large, and many. Chosen,
not measured."""


def variants_from_donor(
    graph: Graph, index: int, donor: Graph, donor_nodes: Sequence[int]
) -> Iterator[Variant]:
    """Yield variants of a node in which a weight or attribute is copied from another graph.

    Args:
        graph: the model.
        index: the position of the node.
        donor: the correct model.
        donor_nodes: the nodes that it has instead of that and of others.
    """
    node = graph.nodes[index]
    twins = [donor.nodes[donor_node] for donor_node in donor_nodes]
    yield from _attributes(
        node, [twin for twin in twins if twin.op.replace("Fused", "") == node.op]
    )
    weights = {
        name: np.asarray(donor.constants[name].values)
        for twin in twins
        for name in twin.inputs
        if name in donor.constants and donor.constants[name].values is not None
    }
    yield from _weights(graph, index, list(weights.values()))
    if node.op in _BIASED and len(node.inputs) == 2:
        for array in weights.values():
            if array.ndim == 1 and is_float(array):
                held_node = evolve(node, inputs=(*node.inputs, "bias"))
                yield Variant(
                    "structure", changes.missing_bias(node.op), held_node, {"bias": array}
                )
    numbers = [
        np.asarray(attribute.value)
        for n in twins
        for attribute in n.attributes
        if attribute.kind == "float"
    ]
    yield from _number_variants(graph, index, numbers)


def bypass_variants(side: Graph, index: int) -> Iterator[Variant]:
    """Yield the variant of a node that returns its only computed input unchanged,
    if it has only one."""
    node = side.nodes[index]
    read = tuple(name for name in node.inputs if name and name not in side.constants)
    outputs = tuple(filter(None, node.outputs))
    if (
        len(read) == len(outputs) == 1
        and node.op != "Identity"
        and not any(True for _ in node.graphs)
    ):
        identity = evolve(
            node, op="Identity", domain="", inputs=read, outputs=outputs, attributes=()
        )
        yield Variant("structure", changes.extra_node(node.op), identity)


def _attributes(node: Node, twins: Sequence[Node]) -> Iterator[Variant]:
    """Yield a variant of a node for each attribute that its twins have with another value."""
    for twin in twins:
        attributes = {attribute.name: attribute for attribute in node.attributes}
        for attribute_of_twin in twin.attributes:
            attribute = attributes.get(attribute_of_twin.name)
            if attribute_of_twin.kind not in _PLAIN:
                continue
            if (
                attribute_of_twin.is_default
                if attribute is None
                else attribute_text(attribute) == attribute_text(attribute_of_twin)
            ):
                continue
            kept_attributes = tuple(
                attribute
                for attribute in node.attributes
                if attribute.name != attribute_of_twin.name
            )
            value = None if attribute is None else attribute.value
            yield Variant(
                "epsilon" if attribute_of_twin.name == "epsilon" else "attribute",
                changes.other_attribute(
                    node.op, attribute_of_twin.name, value, attribute_of_twin.value
                ),
                evolve(node, attributes=(*kept_attributes, attribute_of_twin)),
            )


def _weights(side: Graph, index: int, arrays: Sequence[Any]) -> Iterator[Variant]:
    """Yield a variant of a node for each weight replaced by another array."""
    node = side.nodes[index]
    held_arrays = {
        name: np.asarray(side.constants[name].values)
        for name in node.inputs
        if name in side.constants and side.constants[name].values is not None
    }
    for name, own_array in held_arrays.items():
        for array in arrays:
            for other_value in _forms_of_array(array, own_array):
                if not any(is_close(array, other_value, _SAME) for array in held_arrays.values()):
                    yield with_weight(side, index, name, other_value)
    for name, own_array in held_arrays.items():
        for other_value in _joined_arrays(arrays, own_array):
            yield with_weight(side, index, name, other_value)


def _joined_arrays(arrays: Sequence[Any], own_array: Any) -> Iterator[Any]:
    """Yield arrays joined along the last axis to the shape of another,
    as optimizers join the weights of queries, keys and values; or the other array with one of
    them in a part of it."""
    if not own_array.ndim:
        return
    last = own_array.shape[-1]
    for forms in (arrays, [array.T for array in arrays if array.ndim > 1]):
        parts = [
            form
            for form in forms
            if form.dtype == own_array.dtype
            and form.shape[:-1] == own_array.shape[:-1]
            and form.ndim == own_array.ndim
            and 0 < form.shape[-1] < last
        ]
        for part in parts[:_MOST_PARTS]:
            size = part.shape[-1]
            for start in range(0, last - size + 1, size) if last <= _MOST_PARTS * size else ():
                other_array = own_array.copy()
                other_array[..., start : start + size] = part
                yield other_array
        for count in _JOINED if len(parts) <= _MOST_PARTS else ():
            for chosen in permutations(parts, count):
                if sum(part.shape[-1] for part in chosen) == last:
                    yield np.concatenate(chosen, -1)


def _forms_of_array(array: Any, own_array: Any) -> Iterator[Any]:
    """Yield forms of an array in the shape of another: unchanged, transposed, reversed, or a part
    of it."""
    if array.dtype != own_array.dtype or not own_array.size or not array.size:
        return
    if array.size == own_array.size:
        if own_array.ndim == 2 and array.T.shape == own_array.shape:
            yield np.ascontiguousarray(array.T)
        yield array.reshape(own_array.shape)
    elif array.ndim == own_array.ndim:
        axes = [i for i, (n, m) in enumerate(zip(array.shape, own_array.shape)) if n != m]
        if (
            len(axes) == 1
            and own_array.ndim < 3
            and array.shape[axes[0]] % own_array.shape[axes[0]] == 0
        ):
            parts = array.shape[axes[0]] // own_array.shape[axes[0]]
            yield from map(np.ascontiguousarray, np.split(array, parts, axes[0]))


def with_weight(side: Graph, index: int, name: str, array: Any) -> Variant:
    """Return the variant of a node that reads another weight."""
    weight = np.asarray(side.constants[name].values)
    node = side.nodes[index]
    operands = [
        (index, position) for position, input_name in enumerate(node.inputs) if input_name == name
    ]
    cause = cause_of_weight(side, operands, weight, array)
    change = changes.other_weight(role_of(cause), name, change_of_weight(weight, array), node.op)
    return Variant(cause, change, node, {name: array})


def scalar_weights(side: Graph, index: int) -> list[str]:
    """Return the names of the scalar floating-point weights that a node reads."""
    weights = {
        name: side.constants[name] for name in side.nodes[index].inputs if name in side.constants
    }
    return [
        name
        for name, weight in weights.items()
        if weight.values is not None
        and np.size(weight.values) == 1
        and is_float(np.asarray(weight.values))
    ]


def _number_variants(side: Graph, index: int, numbers: Sequence[Any]) -> Iterator[Variant]:
    """Yield variants with other numbers as attributes, such as the factor of a matrix product."""
    for name in scalar_weights(side, index):
        array = np.asarray(side.constants[name].values)
        if array.any():
            yield with_weight(side, index, name, -array)
        for number in numbers:
            for value in (number, 1 / number if number else number):
                if not np.isclose(value, array.reshape(-1)[0], rtol=1e-5):
                    yield with_weight(side, index, name, np.full_like(array, value))


def is_close(array: Any, reference: Any, share: float = ALIKE) -> bool:
    """Return whether two arrays are equal up to a relative RMS difference of `share`."""
    if np.size(array) != np.size(reference) or is_float(array) != is_float(reference):
        return False
    first, second = np.reshape(array, -1), np.reshape(reference, -1)
    if not is_float(reference):
        return bool(np.array_equal(first, second))
    first, second = first.astype(np.float64), second.astype(np.float64)
    # A mask may have filled most elements, and these are always equal.
    counted = without_fills(first, second)
    nonzero = np.abs(counted[np.isfinite(counted) & (counted != 0)])
    size = quantile(nonzero, _USUAL) if nonzero.size else 0.0
    return bool(np.allclose(first, second, rtol=share, atol=share * size, equal_nan=True))


def is_informative(array: Any) -> bool:
    """Return whether an array has enough distinct values that an accidental match is unlikely."""
    if not is_float(array) or array.size < 2:
        return False
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        return False
    spread, size = float(np.ptp(finite)), float(np.max(np.abs(finite)))
    return spread > _SPREAD * ALIKE * size or finite.size < array.size


FUNCTIONS = frozenset(
    {"Exp", "HardSwish", "Neg", "Relu", "SiLU", "Sigmoid", "Softplus", "Sqrt", "Tanh"}
)
"""Functions without weights that may be missing."""


def results_of_missing_nodes(value: Any, weights: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield an operator that may be missing after a tensor, and its result.
    The operator is an activation, or a product, a quotient, a sum or a matrix product with a weight
    of the reference.

    Args:
        value: the tensor.
        weights: the weights.
    """
    array = np.asarray(value)
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        gate = 1 / (1 + np.exp(-wide))
        results = {
            "Relu": np.maximum(wide, 0),
            "Sigmoid": gate,
            "Tanh": np.tanh(wide),
            "Neg": -wide,
            "Sqrt": np.sqrt(wide),
            "Exp": np.exp(wide),
            "SiLU": wide * gate,
            "HardSwish": wide * np.clip(wide / 6 + 0.5, 0, 1),
            "Softplus": np.log1p(np.exp(wide)),
        }
        for op, result in results.items():
            yield op, result.astype(array.dtype)
        for weight in weights:
            if weight.ndim == 2 and {*weight.shape} == {*array.shape[-1:]}:
                for matrix in (weight, weight.T):
                    yield "MatMul", (wide @ matrix.astype(np.float64)).astype(array.dtype)
            try:
                if np.broadcast_shapes(array.shape, weight.shape) != array.shape:
                    continue
            except ValueError:
                continue
            # The double of a tensor is a wrong number, and other operators return a constant.
            is_itself = np.array_equal(np.broadcast_to(weight, array.shape), array)
            for op, function in _LOST.items():
                if op == "Mul" or not is_itself:
                    yield op, function(wide, weight.astype(np.float64)).astype(array.dtype)


class SameTensors:
    """Finds the tensor of another model with the same values.

    Args:
        others: by tensor, an array.
    """

    def __init__(self, other_values: Mapping[str, Any]) -> None:
        """Index the tensors of the other model by shape."""
        self._others = {
            name: array for name, array in other_values.items() if is_informative(array)
        }
        self._sizes: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for name, array in self._others.items():
            self._sizes[array.size].append((_norm(array), name))

    def find_equal(
        self, name: str, array: Any, used_names: Collection[str], is_moved: bool = False
    ) -> str | None:
        """Return the tensor that holds the same values as `array`: by the same name if possible,
        else by shape; None if there is none.

        Args:
            name: its name.
            array: its contents.
            used_names: tensors that correspond to other tensors.
            is_moved: whether `array` has the values of another tensor in a different order. A wrong
                order can match a tensor of the other model by chance.
        """
        if not is_informative(array):
            return None
        total = _norm(array)
        near = [
            other_name
            for size, other_name in self._sizes.get(array.size, ())
            if other_name not in used_names
            and (size == total or abs(size - total) <= 1e-8 + 4 * ALIKE * total < inf)
        ]
        if is_moved:
            near = [other_name for other_name in near if other_name == name]
        near.sort(
            key=lambda other_name: (
                other_name != name,
                self._others[other_name].shape != array.shape,
            )
        )
        return next(
            (other_name for other_name in near if is_close(array, self._others[other_name])), None
        )


def _norm(array: Any) -> float:
    """Return the Euclidean norm of the finite elements of an array."""
    total = np.where(np.isfinite(array), array, 0).astype(np.float64)
    return float(np.sqrt(np.sum(np.square(total))))


@frozen
class Border:
    """Nodes between correct tensors and the next tensor that both models have.

    Attributes:
        nodes: their positions, in order.
        tensor: their outputs, in the model.
        twin: the corresponding tensor of the reference.
    """

    nodes: tuple[int, ...]
    tensor: str
    twin: str


class Borders:
    """Finds the first tensors of a model that differ from the reference.

    Args:
        nodes: the nodes of the model.
        others: those of the reference.
        values: by tensor of the reference, what it holds.
    """

    def __init__(
        self,
        graph: Graph,
        reference: Graph,
        values: Mapping[str, Any],
    ) -> None:
        """Prepare the search in a model, a reference, and the values of its tensors."""
        self._graph = graph
        self._nodes = graph.nodes
        self._others = reference.nodes
        self._values = values
        self._makers = graph.producers

    def find_first(
        self,
        computed: Mapping[str, Any],
        equal_tensors: Mapping[str, str],
        refused: Collection[str] = (),
    ) -> list[Border]:
        """Return the first computed tensors that differ from the reference tensor of the same name
        although all tensors before them match.

        Args:
            computed: the values of the model's tensors.
            equal_tensors: tensors of the model, with the reference tensors of equal values.
            refused: tensors with another meaning in the reference.
        """
        used_names, equal_makers = set(equal_tensors.values()), self.makers_of(equal_tensors)
        free_tensors = {
            name
            for node in self._others
            for name in node.makes
            if name not in used_names and name not in refused and is_float(self._values.get(name))
        }
        borders: list[Border] = []
        beyond: set[str] = set()
        for index, node in enumerate(self._nodes):
            is_beyond = any(name in beyond for name in node.reads)
            for name in node.makes:
                if name in equal_tensors or index in equal_makers:
                    continue
                if is_beyond or not is_float(computed.get(name)):
                    beyond.update({name} if is_beyond else ())
                elif name in free_tensors:
                    region = tuple(region_before(self._graph, name, equal_tensors.keys()))
                    borders.append(Border(region, name, name))
                    beyond.add(name)
        return borders

    def makers_of(self, tensors: Collection[str], replaced: Collection[str] = ()) -> set[int]:
        """Return the nodes that compute the tensors, and all nodes before them,
        except nodes with another output that also exists in the reference.

        Args:
            tensors: correct tensors.
            replaced: those that were taken from the reference, which says nothing about the nodes
                that compute them in the model.
        """
        # Equal integers and booleans do not show that what they were computed from is equal.
        waiting = [
            self._makers[name]
            for name in tensors
            if name in self._makers
            and name not in replaced
            and self._nodes[self._makers[name]].operator not in _COARSE
        ]
        makers: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index not in makers:
                makers.add(index)
                node = self._nodes[index]
                is_part = node.operator in _PARTIAL and any(
                    name not in tensors for name in node.makes
                )
                is_part |= node.operator in _PARTIAL and len(node.makes) == 1
                reads = () if is_part or node.operator in _COARSE else node.reads
                waiting += [
                    self._makers[name]
                    for name in reads
                    if name in self._makers and name not in replaced
                ]
        return {index for index in makers if not self._is_partly_equal(self._nodes[index], tensors)}

    def _is_partly_equal(self, node: Node, tensors: Collection[str]) -> bool:
        """Return whether some outputs of a node are among the tensors and others are not."""
        names = [name for name in node.makes if name not in tensors and name in self._values]
        return bool(names) and any(name in tensors for name in node.makes)
