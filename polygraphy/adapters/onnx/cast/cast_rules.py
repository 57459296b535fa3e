"""Which operands and results of a node are narrow when a graph is lowered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from polygraphy.adapters.onnx.graph.element_types import (
    CONSTANTS,
    TYPE_ATTRIBUTES,
    GraphTypes,
    Signature,
    domain_of,
    signature_of,
)
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.errors import UnknownNameError

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


def names_of(node: NodeProto) -> list[str]:
    """Return the name of a node; of one without a name those of the tensors that it computes."""
    return [node.name] if node.name else [name for name in node.output if name]


@frozen
class CastSelection:
    """What is cast, and what is not; a node that is in both stays as it is.

    Attributes:
        keep_ops: operator types that stay as they are, with the graphs inside them.
        keep_nodes: names of nodes that stay; see `names_of`.
        only_ops: operator types that are cast; with `only_nodes`, nothing else is. A call of a
            function of the model is one operator.
        only_nodes: names of nodes that are cast.
    """

    keep_ops: frozenset[str] = frozenset()
    keep_nodes: frozenset[str] = frozenset()
    only_ops: frozenset[str] = frozenset()
    only_nodes: frozenset[str] = frozenset()

    def keeps(self, node: NodeProto) -> bool:
        """Return whether a node stays as it is, and what is inside it, too."""
        return node.op_type in self.keep_ops or _is_named(node, self.keep_nodes)

    def chooses(self, node: NodeProto) -> bool:
        """Return whether a node may be cast, if nothing else is against it."""
        if not self.only_ops and not self.only_nodes:
            return True
        return node.op_type in self.only_ops or _is_named(node, self.only_nodes)

    def check(self, nodes: Iterable[NodeProto]) -> None:
        """Log which names none of the nodes of a model goes by.

        Raises:
            UnknownNameError: there is one, in `keep_nodes`, `only_nodes` or `only_ops`.
        """
        present = list(nodes)
        names = {name for node in present for name in names_of(node)}
        for name in sorted(self.keep_nodes | self.only_nodes):
            if name not in names:
                raise UnknownNameError("Node", name, sorted(names))
        ops = {node.op_type for node in present}
        for op in sorted(self.only_ops):
            if op not in ops:
                raise UnknownNameError("Operator type", op, sorted(ops))


def _is_named(node: NodeProto, names: Collection[str]) -> bool:
    return bool(names) and any(name in names for name in names_of(node))


WIDE = "tensor(float)"
KEPT_OPERATORS = frozenset(
    {
        "Bernoulli", "CumSum", "EyeLike", "MeanVarianceNormalization", "NonMaxSuppression",
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range",
        "RoiAlign", "ScatterElements", "ScatterND", "TopK",
    }
)  # fmt: skip
"""Operators that stay as they are: rounding would change which elements they choose or count, they
add up many numbers, or the narrow types are declared for them, but backends, or the function that
the standard defines them by, have none.
"""

_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})

Forms = tuple[list[bool | None], list[bool | None]]
"""Whether each operand and each result is narrow; None where a tensor has no such forms."""


@frozen(eq=False)
class CastSettings:
    """What a model is rewritten to.

    Attributes:
        elem_type: the number of the narrow type in the standard.
        kind: its name there.
        suffix: what tensors in that type are named after.
        selection: which nodes are cast.
        functions: the functions of the model that are rewritten.
        convert: converts a tensor; its arguments are the tensor, where the result goes, what to
            call the tensor, and the nodes that read it.
        fixed_inputs: whether an input of the graph that has an initialiser cannot be fed, as before
            version 4 of the format.
        forms: is filled with those of the nodes that are lowered, by their first results.
    """

    elem_type: int
    kind: str
    suffix: str
    selection: CastSelection
    functions: Collection[tuple[str, str, str]]
    convert: Callable[[TensorProto, TensorProto, str, Sequence[str]], None]
    fixed_inputs: bool = False
    forms: dict[str, Forms] = Factory(dict)

    def takes(self, types: frozenset[str]) -> bool:
        """Return whether a parameter of these types can be narrow."""
        return self.kind in types


class CastRules:
    """Chooses the forms of the tensors of one graph's nodes."""

    def __init__(
        self,
        settings: CastSettings,
        types: GraphTypes,
        versions: dict[str, int],
        present_form: Callable[[str], bool],
    ) -> None:
        """Take what the graph is about.

        Args:
            settings: what the model is rewritten to.
            types: the types of its tensors.
            versions: of the operators, by domain.
            present_form: returns the form in which a tensor exists already.
        """
        self._settings = settings
        self._types = types
        self._versions = versions
        self._present_form = present_form

    def wide(self, node: NodeProto) -> Forms:
        """Return the forms of operands and results of a node that stays as it is."""
        takes, gives = (
            [False if name and self._types[name] == WIDE else None for name in names]
            for names in (node.input, node.output)
        )
        return list(takes), list(gives)

    def chosen(self, node: NodeProto, inner: Sequence[GraphTypes]) -> Forms | None:
        """Return which operands and results of a node are narrow, None where a tensor has no such
        forms; None for a node that has to stay as it is.
        """
        kinds = [self._types[name] for name in (*node.input, *node.output) if name]
        if WIDE not in kinds or any(kind is None for kind in kinds):
            return None
        domain = domain_of(node.domain)
        key = (domain, node.op_type, node.overload)
        is_control_flow = not domain and node.op_type in _CONTROL_FLOW
        if key in self._settings.functions or is_control_flow:
            if is_control_flow and not self._borders_agree(node, inner):
                return None
            takes, gives = self.wide(node)
            return _inverted(takes), _inverted(gives)
        if domain or any(not str(kind).startswith("tensor(") for kind in kinds):
            return None
        signature = signature_of(node.op_type, domain, self._versions.get(domain, 1))
        return None if signature is None else self._by_signature(node, signature)

    def _by_signature(self, node: NodeProto, signature: Signature) -> Forms | None:
        parameters = signature.of(len(node.input), len(node.output))
        if parameters is None or _has_unknown_type(node):
            return None
        inputs, outputs = parameters
        users: dict[str, int] = {}
        for name, parameter in (*zip(node.input, inputs), *zip(node.output, outputs)):
            users[parameter.variable] = users.get(parameter.variable, 0) + bool(name)
        decides = node.op_type in TYPE_ATTRIBUTES or node.op_type in CONSTANTS
        computes = not decides and any(self._types[name] == WIDE for name in node.output)
        takes: list[bool | None] = []
        for name, parameter in zip(node.input, inputs):
            is_alone = users[parameter.variable] == 1 and not computes
            if not name or self._types[name] != WIDE:
                takes.append(None)
            elif is_alone and self._settings.takes(parameter.types):
                takes.append(self._present_form(name))  # Nothing else has to be of this type.
            else:
                takes.append(self._settings.takes(parameter.types))
        follows = {parameter.variable for parameter in inputs}
        gives = [
            (
                (decides or parameter.variable in follows) and self._settings.takes(parameter.types)
                if name and self._types[name] == WIDE
                else None
            )
            for name, parameter in zip(node.output, outputs)
        ]
        return takes, gives

    def _borders_agree(self, node: NodeProto, inner: Sequence[GraphTypes]) -> bool:
        """Return whether what goes into and out of the graphs inside a node is known to be wide
        there where it is outside.
        """
        skipped = 1 if node.op_type == "Loop" else 0
        for graph, types in zip(graphs_of(node), inner):
            made = [types[value.name] for value in graph.output][skipped:]
            pairs = list(zip((self._types[name] for name in node.output), made))
            if node.op_type != "If":
                taken = [types[value.name] for value in graph.input]
                pairs += zip((self._types[name] for name in node.input), taken)
            if any(
                inside is None or (inside == WIDE) != (outside == WIDE)
                for outside, inside in pairs
                if outside is not None
            ):
                return False
        return True


def _inverted(forms: list[bool | None]) -> list[bool | None]:
    return [None if form is None else True for form in forms]


def _has_unknown_type(node: NodeProto) -> bool:
    """Return whether what a node makes is of a type that its caller, a function's, decides."""
    return any(attribute.ref_attr_name for attribute in node.attribute) and (
        node.op_type in TYPE_ATTRIBUTES or node.op_type in CONSTANTS
    )
