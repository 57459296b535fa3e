"""Rewrites graphs so that their nodes compute in a narrower floating-point type.

Every float32 tensor of a graph has one or two forms: as it was, and narrow. A node reads its
operands in the form that it needs; the first node that needs a missing form gets a Cast, which
later nodes also read. A weight that is only used in one form is converted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import (
    CONSTANTS,
    FLOAT,
    TYPE_ATTRIBUTES,
    GraphTypes,
    Signature,
    domain_of,
    set_output_type,
    signature_of,
    type_name,
)
from polygraphy.adapters.onnx.graph.graph import constant_tensor, is_constant, unique_name
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.errors import UnknownNameError

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto


def names_of(node: NodeProto) -> list[str]:
    """Return the name of a node, or the names of its outputs if it has none."""
    return [node.name] if node.name else [name for name in node.output if name]


@frozen
class CastSelection:
    """The nodes to cast and those to keep; a node in both is kept.

    Attributes:
        keep_ops: operator types that stay as they are, with the graphs inside them.
        keep_nodes: names of nodes that stay; see `names_of`.
        only_ops: operator types that are cast; together with `only_nodes`, the only nodes that are
            cast. A call of a function of the model is one operator.
        only_nodes: names of nodes that are cast.
    """

    keep_ops: frozenset[str] = frozenset()
    keep_nodes: frozenset[str] = frozenset()
    only_ops: frozenset[str] = frozenset()
    only_nodes: frozenset[str] = frozenset()

    def keeps(self, node: NodeProto) -> bool:
        """Return whether a node, with its subgraphs, must not be cast."""
        return node.op_type in self.keep_ops or _is_named(node, self.keep_nodes)

    def chooses(self, node: NodeProto) -> bool:
        """Return whether the options allow a node to be cast."""
        if not self.only_ops and not self.only_nodes:
            return True
        return node.op_type in self.only_ops or _is_named(node, self.only_nodes)

    def warn_unknown_names(self, nodes: Iterable[NodeProto]) -> None:
        """Log the requested names that no node of a model has.

        Raises:
            UnknownNameError: `keep_nodes`, `only_nodes` or `only_ops` has an unknown name.
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
    """Return whether one of the names of a node is in a set."""
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
add up many numbers, or backends or their definition in the standard do not support the narrow types
that they declare.
"""

_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})

Forms = tuple[list[bool | None], list[bool | None]]
"""Whether each operand and each result is narrow; None for tensors without such forms."""


@frozen(eq=False)
class CastSettings:
    """The target of a cast.

    Attributes:
        elem_type: the number of the narrow type in the standard.
        kind: its name there.
        suffix: the suffix of the names of tensors in that type.
        selection: the nodes to cast.
        functions: the functions of the model that are rewritten.
        convert: converts a tensor; its arguments are the tensor, the tensor for the result, its
            name in messages, and the nodes that read it.
        fixed_inputs: whether an input of the graph that has an initializer cannot be fed, as before
            version 4 of the format.
        forms: receives the forms of the lowered nodes, by their first results.
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
        """Return whether a parameter with these allowed types can be in the narrow type."""
        return self.kind in types


class CastRules:
    """Decides which tensors of the nodes of a graph become narrow."""

    def __init__(
        self,
        settings: CastSettings,
        types: GraphTypes,
        versions: dict[str, int],
        present_form: Callable[[str], bool],
    ) -> None:
        """Create the rules for the casts of a graph.

        Args:
            settings: the settings of the cast.
            types: the types of its tensors.
            versions: of the operators, by domain.
            present_form: returns the form in which a tensor exists already.
        """
        self._settings = settings
        self._types = types
        self._versions = versions
        self._has_narrow_form = present_form

    def wide_forms(self, node: NodeProto) -> Forms:
        """Return, for each input and output of a node that is not cast, False if it is float32,
        else None.
        """
        takes, gives = (
            [False if name and self._types[name] == WIDE else None for name in names]
            for names in (node.input, node.output)
        )
        return list(takes), list(gives)

    def choose_forms(self, node: NodeProto, inner: Sequence[GraphTypes]) -> Forms | None:
        """Return, for each input and output, whether it becomes narrow (None for tensors that are
        never cast); None for a node that must not be cast."""
        kinds = [self._types[name] for name in (*node.input, *node.output) if name]
        if WIDE not in kinds or any(kind is None for kind in kinds):
            return None
        domain = domain_of(node.domain)
        key = (domain, node.op_type, node.overload)
        is_control_flow = not domain and node.op_type in _CONTROL_FLOW
        if key in self._settings.functions or is_control_flow:
            may_be_narrow = self._takes_narrow(node) and self._borders_agree(node, inner)
            if is_control_flow and not may_be_narrow:
                return None
            takes, gives = self.wide_forms(node)
            return _widen_forms(takes), _widen_forms(gives)
        if domain or any(not str(kind).startswith("tensor(") for kind in kinds):
            return None
        signature = signature_of(node.op_type, domain, self._versions.get(domain, 1))
        return None if signature is None else self._forms_from_signature(node, signature)

    def _forms_from_signature(self, node: NodeProto, signature: Signature) -> Forms | None:
        """Return, by the signature of a node's operator,
        whether each input and output becomes narrow; None if the node must not be cast.
        """
        parameters = signature.parameters_for(len(node.input), len(node.output))
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
                # The type variable belongs to this operand alone, so the operand may become narrow.
                takes.append(self._has_narrow_form(name))
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

    def _takes_narrow(self, node: NodeProto) -> bool:
        """Return whether the version of a control flow operator accepts the narrow type."""
        signature = signature_of(node.op_type, "", self._versions.get("", 1))
        sides = signature and signature.parameters_for(len(node.input), len(node.output))
        return sides is None or all(
            self._settings.takes(parameter.types)
            for names, parameters in zip((node.input, node.output), sides)
            for name, parameter in zip(names, parameters)
            if name and self._types[name] == WIDE
        )

    def _borders_agree(self, node: NodeProto, inner: Sequence[GraphTypes]) -> bool:
        """Return whether tensors that enter or leave the subgraphs of a node have the same width
        inside and outside."""
        skipped = 1 if node.op_type == "Loop" else 0
        for graph, types in zip(graphs_of(node), inner):
            kinds = [types[value.name] for value in graph.output][skipped:]
            pairs = list(zip((self._types[name] for name in node.output), kinds))
            if node.op_type != "If":
                used_kinds = [types[value.name] for value in graph.input]
                pairs += zip((self._types[name] for name in node.input), used_kinds)
            if any(
                inside is None or (inside == WIDE) != (outside == WIDE)
                for outside, inside in pairs
                if outside is not None
            ):
                return False
        return True


def _widen_forms(forms: list[bool | None]) -> list[bool | None]:
    """Return forms with each narrow one replaced by a wide one."""
    return [None if form is None else True for form in forms]


def _has_unknown_type(node: NodeProto) -> bool:
    """Return whether a node in a function has outputs whose type only the caller determines."""
    return any(attribute.ref_attr_name for attribute in node.attribute) and (
        node.op_type in TYPE_ATTRIBUTES or node.op_type in CONSTANTS
    )


onnx = mod.lazy_import("onnx")


@define(eq=False)
class _Weight:
    """An initializer or a Constant, with its readers by form.

    Attributes:
        tensor: its value.
        node: the Constant node that holds it; None for an initializer.
        narrow_uses: nodes of its graph that read it narrow, with the position of the operand.
        inner_name: the name under which outputs and nodes of subgraphs read it narrow; empty for
            none. (Those nodes are copied before it is known whether a wide form remains.)
        is_used_wide: whether a consumer reads it in float32.
        readers: the nodes that read it narrow, by their names in messages.
    """

    tensor: TensorProto
    node: NodeProto | None = None
    narrow_uses: list[tuple[Any, int]] = Factory(list)
    inner_name: str = ""
    is_used_wide: bool = False
    readers: list[str] = Factory(list)

    def name_of_form(
        self, name: str, narrow: bool, reader: str, unused: Callable[[str], str]
    ) -> str:
        """Return the name of a narrow or wide form of the weight,
        for a reader that cannot be changed later.
        """
        if not narrow:
            self.is_used_wide = True
            return name
        self.readers.append(reader)
        self.inner_name = self.inner_name or unused(name)
        return self.inner_name


class Scope:
    """A graph, or the body of a function, while it is rewritten."""

    def __init__(
        self,
        settings: CastSettings,
        types: GraphTypes,
        versions: dict[str, int],
        parent: Scope | None = None,
        used_names: set[str] | None = None,
    ) -> None:
        """Set the types and the settings of a graph; `parent` is the outer graph."""
        self._settings = settings
        self._types = types
        self._versions = versions
        self._rules = CastRules(settings, types, versions, self._has_narrow_form)
        self._parent = parent
        self._taken: set[str] = parent._taken if parent else (used_names or set())
        self._forms: dict[str, dict[bool, str]] = {}
        self._weights: dict[str, _Weight] = {}
        self._made: list[NodeProto] = []
        self.added: list[TensorProto] = []

    def rewrite_graph(self, graph: GraphProto, *, narrow_border: bool, is_kept: bool) -> None:
        """Rewrite a graph in place.

        Args:
            graph: the graph.
            narrow_border: whether its inputs and outputs also become narrow.
            is_kept: whether its nodes are unchanged, and read float32 operands.
        """
        fed = () if self._settings.fixed_inputs else {value.name for value in graph.input}
        self._weights = {
            tensor.name: _Weight(tensor)
            for tensor in graph.initializer
            if tensor.data_type == FLOAT and tensor.name not in fed
        }
        for value in graph.input:
            if value.name not in self._weights and self._is_wide(value.name):
                self._forms[value.name] = {narrow_border: value.name}
                if narrow_border and type_name(value.type) == WIDE:
                    value.type.tensor_type.elem_type = self._settings.elem_type
        outputs = {value.name for value in graph.output}
        nodes = list(graph.node)
        self.rewrite_nodes(nodes, () if narrow_border else outputs, is_kept=is_kept)
        for value in graph.output:
            if self._is_wide(value.name):
                value.name = self.name_of_form(value.name, narrow_border)
                if narrow_border and type_name(value.type) == WIDE:
                    value.type.tensor_type.elem_type = self._settings.elem_type
        self._convert_weights(graph)
        self._replace_nodes(graph)

    def rewrite_function(self, function: Any) -> None:
        """Rewrite a function in place; its inputs and outputs become narrow."""
        for name in function.input:
            if self._is_wide(name):
                self._forms[name] = {True: name}
        self.rewrite_nodes(list(function.node), (), is_kept=False)
        for index, name in enumerate(function.output):
            if self._is_wide(name):
                function.output[index] = self.name_of_form(name, True)
        for inner_name, name in self._convert_weights().items():
            for index, output in enumerate(function.output):
                if output == inner_name:
                    function.output[index] = name
        self._replace_nodes(function)

    def _replace_nodes(self, body: Any) -> None:
        """Replace the nodes of a graph or a function, and update the data types it declares."""
        del body.node[:]
        body.node.extend(self._made)
        for value in body.value_info:
            if type_name(value.type) == WIDE and True in self._forms_of_name(value.name):
                value.type.tensor_type.elem_type = self._settings.elem_type

    def rewrite_nodes(
        self, nodes: Sequence[NodeProto], wide_outputs: Collection[str], *, is_kept: bool
    ) -> None:
        """Rewrite nodes in order; tensors in `wide_outputs` keep their name and data type."""
        if not is_kept:
            self._weights.update(self._constants(nodes))
        for index, node in enumerate(nodes):
            if is_constant(node) and node.output[0] in self._weights:
                self._made.append(node)
                continue
            inner = self._types.inner(index)
            is_kept_wide = is_kept or self._settings.selection.keeps(node)
            is_chosen = not is_kept_wide and self._settings.selection.chooses(node)
            forms = self._rules.choose_forms(node, inner) if is_chosen else None
            if forms is not None and node.output:
                self._settings.forms[node.output[0]] = forms
            self._rewrite_subgraphs(node, inner, is_cast=forms is not None, is_kept=is_kept_wide)
            takes, gives = forms or self._rules.wide_forms(node)
            for position, narrow in enumerate(takes):
                if narrow is not None:
                    self._set_operand(node, position, narrow)
            if forms is not None and self._makes_wide(node) and gives[0]:
                version = self._versions.get("", 1)
                set_output_type(node, self._settings.elem_type, version, self._settings.convert)
            self._made.append(node)
            for position, narrow in enumerate(gives):
                if narrow is not None:
                    self._set_result(node, position, narrow, wide_outputs)

    def _constants(self, nodes: Sequence[NodeProto]) -> dict[str, _Weight]:
        """Return the weights in Constant nodes that no option excludes, by name."""
        constants: dict[str, _Weight] = {}
        for node in nodes:
            if is_constant(node) and len(node.output) == 1 and self._is_wide(node.output[0]):
                tensor = constant_tensor(node)
                if tensor is not None and not self._settings.selection.keeps(node):
                    constants[node.output[0]] = _Weight(tensor, node)
        return constants

    def name_of_form(self, name: str, narrow: bool) -> str:
        """Return the name of the narrow or wide form of a tensor.
        A Cast is added if it does not exist.
        """
        scope: Scope | None = self
        forms: dict[bool, str] = {}
        while scope is not None:
            if name in scope._weights:
                return scope._weights[name].name_of_form(
                    name, narrow, "an output", scope._narrow_name
                )
            forms = {**scope._forms.get(name, {}), **forms}
            if name in scope._forms and not scope._is_cast_here(name):
                break
            scope = scope._parent
        if narrow in forms or not forms:
            return forms.get(narrow, name)
        new_name = unique_name(f"{name}_{self._settings.suffix if narrow else 'fp32'}", self._taken)
        self._cast(forms[not narrow], new_name, narrow)
        self._forms.setdefault(name, {})[narrow] = new_name
        return new_name

    def _is_cast_here(self, name: str) -> bool:
        """Return whether a tensor of an outer graph was cast in this one."""
        return name not in self._forms[name].values()

    def _cast(self, source: str, target: str, narrow: bool) -> None:
        """Add a Cast from one tensor to another."""
        self._made.append(
            onnx.helper.make_node(
                "Cast",
                [source],
                [target],
                name=unique_name(f"cast_{target}", self._taken),
                to=self._settings.elem_type if narrow else FLOAT,
            )
        )

    def _makes_wide(self, node: NodeProto) -> bool:
        """Return whether the first result of a standard operator is float32."""
        has_result = len(node.output) > 0 and not domain_of(node.domain)
        return has_result and self._is_wide(node.output[0])

    def _is_wide(self, name: str) -> bool:
        """Return whether a tensor is float32 before the cast."""
        return self._types[name] == WIDE

    def _forms_of_name(self, name: str) -> Collection[bool]:
        """Return the forms (True: narrow) that have this name in this graph."""
        return [
            narrow for narrow, new_name in self._forms.get(name, {}).items() if new_name == name
        ]

    def _set_operand(self, node: NodeProto, position: int, narrow: bool) -> None:
        """Set an operand of a node to the narrow or wide form of its tensor."""
        name = node.input[position]
        scope: Scope | None = self
        while scope is not None and name not in scope._forms:
            if name in scope._weights:
                weight = scope._weights[name]
                reader = f"{node.op_type} node {names_of(node)[0]!r}"
                if narrow and scope is self:
                    weight.readers.append(reader)
                    weight.narrow_uses.append((node, position))
                else:
                    node.input[position] = weight.name_of_form(
                        name, narrow, reader, self._narrow_name
                    )
                return
            scope = scope._parent
        node.input[position] = self.name_of_form(name, narrow)

    def _set_result(
        self, node: NodeProto, position: int, narrow: bool, wide_outputs: Collection[str]
    ) -> None:
        """Record the form of a result of a node; cast narrow outputs of the graph back at once."""
        name = node.output[position]
        if not (narrow and name in wide_outputs):
            self._forms[name] = {narrow: name}
            return
        new_name = unique_name(f"{name}_{self._settings.suffix}", self._taken)
        node.output[position] = new_name
        self._forms[name] = {True: new_name, False: name}
        self._cast(new_name, name, False)

    def _has_narrow_form(self, name: str) -> bool:
        """Return whether the narrow form of a tensor exists already."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._forms:
                return True in scope._forms[name]
            if name in scope._weights:
                return not scope._weights[name].is_used_wide
            scope = scope._parent
        return False

    def _rewrite_subgraphs(
        self, node: NodeProto, inner: Sequence[GraphTypes], *, is_cast: bool, is_kept: bool
    ) -> None:
        """Rewrite the subgraphs of a node."""
        for graph, types in zip(graphs_of(node), inner):
            scope = Scope(self._settings, types, self._versions, self)
            scope.rewrite_graph(graph, narrow_border=is_cast, is_kept=is_kept)

    def _convert_weights(self, graph: GraphProto | None = None) -> dict[str, str]:
        """Convert weights whose narrow form is used, and return the new names;
        weights used in both forms are duplicated.

        Args:
            graph: their graph; None for a function, which has no initializers.

        Returns:
            The new names of narrow weights, by their earlier names in that form.
        """
        declared = {value.name: value for value in graph.input} if graph else {}
        twins: dict[str, NodeProto] = {}
        restored: dict[str, str] = {}
        for name, weight in self._weights.items():
            if not weight.narrow_uses and not weight.inner_name:
                continue
            if not weight.is_used_wide:
                restored[weight.inner_name] = name
                self._forms[name] = {True: name}
                tensor = weight.tensor
                if weight.node is not None:
                    tensor = constant_tensor(weight.node, in_place=True) or tensor
                self._settings.convert(tensor, tensor, name, weight.readers)
                if name in declared:
                    declared[name].type.tensor_type.elem_type = self._settings.elem_type
                continue
            converted = onnx.TensorProto(name=weight.inner_name or self._narrow_name(name))
            self._settings.convert(weight.tensor, converted, name, weight.readers)
            for node, position in weight.narrow_uses:
                node.input[position] = converted.name
            if weight.node is not None:
                twins[name] = onnx.helper.make_node(
                    "Constant", [], [converted.name], value=converted
                )
            elif graph is not None:
                graph.initializer.append(converted)
            if graph is not None and name in declared:
                value = graph.input.add()
                value.CopyFrom(declared[name])
                value.name = converted.name
                value.type.tensor_type.elem_type = self._settings.elem_type
        if twins:
            self._made = [
                copy
                for node in self._made
                for copy in (node, twins.get(node.output[0]) if is_constant(node) else None)
                if copy is not None
            ]
        restored.pop("", None)
        if graph is not None:
            _rename_outputs(graph, restored)
        for node in self._made:
            for inner_graph in graphs_of(node):
                _rename_operands(inner_graph, restored)
        return restored

    def _narrow_name(self, name: str) -> str:
        """Return an unused name for the narrow form of a tensor."""
        return unique_name(f"{name}_{self._settings.suffix}", self._taken)


def _rename_outputs(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename outputs of a graph, in place."""
    for value in graph.output:
        value.name = names.get(value.name, value.name)


def _rename_operands(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename operands of nodes, also in subgraphs."""
    _rename_outputs(graph, names)
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name and name in names:
                node.input[position] = names[name]
        for inner in graphs_of(node):
            _rename_operands(inner, names)
