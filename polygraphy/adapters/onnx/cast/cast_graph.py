"""Rewrites graphs so that their nodes compute in a narrower floating-point type.

Every float32 tensor of a graph has one or two forms: as it was, and narrow. A node asks for its
operands in the form that it takes, and the first to ask for a form that does not exist yet gets a
Cast, which serves everybody after. A weight that is only used in one form is converted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import Factory, define

from polygraphy import mod
from polygraphy.adapters.onnx.cast.cast_rules import WIDE, CastRules, CastSettings, names_of
from polygraphy.adapters.onnx.graph.element_types import (
    FLOAT,
    GraphTypes,
    domain_of,
    state_type,
    type_name,
)
from polygraphy.adapters.onnx.graph.graph import constant_tensor, is_constant, unused_name
from polygraphy.adapters.onnx_common.messages import graphs_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")


@define(eq=False)
class _Weight:
    """An initialiser or a Constant, and who takes it in which form.

    Attributes:
        tensor: its value.
        node: the Constant node that holds it; None for an initialiser.
        narrow_uses: nodes of its graph that take it narrow, and as which operand.
        inner_name: what outputs and nodes in graphs inside call it that take it narrow; empty for
            none. (Those nodes are copied before it is known whether it stays wide as well.)
        is_used_wide: whether a consumer takes it as it was.
        readers: the nodes that take it narrow, as messages name them.
    """

    tensor: TensorProto
    node: NodeProto | None = None
    narrow_uses: list[tuple[Any, int]] = Factory(list)
    inner_name: str = ""
    is_used_wide: bool = False
    readers: list[str] = Factory(list)

    def form(self, name: str, narrow: bool, reader: str, unused: Callable[[str], str]) -> str:
        """Return the name of a form of the weight, for a reader that cannot be patched later."""
        if not narrow:
            self.is_used_wide = True
            return name
        self.readers.append(reader)
        self.inner_name = self.inner_name or unused(name)
        return self.inner_name


class Scope:
    """One graph, or the body of a function, while it is rewritten."""

    def __init__(
        self,
        settings: CastSettings,
        types: GraphTypes,
        versions: dict[str, int],
        parent: Scope | None = None,
        taken: set[str] | None = None,
    ) -> None:
        self._settings = settings
        self._types = types
        self._versions = versions
        self._rules = CastRules(settings, types, versions, self._present_form)
        self._parent = parent
        self._taken: set[str] = parent._taken if parent else (taken or set())
        self._forms: dict[str, dict[bool, str]] = {}
        self._weights: dict[str, _Weight] = {}
        self._made: list[NodeProto] = []
        self.added: list[TensorProto] = []

    def rewrite_graph(self, graph: GraphProto, *, narrow_border: bool, is_kept: bool) -> None:
        """Rewrite a graph in place.

        Args:
            graph: the graph.
            narrow_border: whether its inputs and outputs become narrow, too.
            is_kept: whether its nodes stay as they are, and only get their operands as they were.
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
                value.name = self.form(value.name, narrow_border)
                if narrow_border and type_name(value.type) == WIDE:
                    value.type.tensor_type.elem_type = self._settings.elem_type
        self._settle_weights(graph)
        self._replace_nodes(graph)

    def rewrite_function(self, function: Any) -> None:
        """Rewrite a function in place; its inputs and outputs become narrow."""
        for name in function.input:
            if self._is_wide(name):
                self._forms[name] = {True: name}
        self.rewrite_nodes(list(function.node), (), is_kept=False)
        for index, name in enumerate(function.output):
            if self._is_wide(name):
                function.output[index] = self.form(name, True)
        for inner_name, name in self._settle_weights().items():
            for index, output in enumerate(function.output):
                if output == inner_name:
                    function.output[index] = name
        self._replace_nodes(function)

    def _replace_nodes(self, body: Any) -> None:
        """Give a graph or a function its new nodes, and let it say of which type tensors are."""
        del body.node[:]
        body.node.extend(self._made)
        for value in body.value_info:
            if type_name(value.type) == WIDE and True in self._named(value.name):
                value.type.tensor_type.elem_type = self._settings.elem_type

    def rewrite_nodes(
        self, nodes: Sequence[NodeProto], wide_outputs: Collection[str], *, is_kept: bool
    ) -> None:
        """Rewrite nodes one after the other; `wide_outputs` names tensors that must exist as they
        were.
        """
        if not is_kept:
            self._weights.update(self._constants(nodes))
        for index, node in enumerate(nodes):
            if is_constant(node) and node.output[0] in self._weights:
                self._made.append(node)
                continue
            inner = self._types.inner(index)
            kept = is_kept or self._settings.selection.keeps(node)
            is_chosen = not kept and self._settings.selection.chooses(node)
            forms = self._rules.chosen(node, inner) if is_chosen else None
            if forms is not None and node.output:
                self._settings.forms[node.output[0]] = forms
            self._rewrite_inner(node, inner, is_cast=forms is not None, is_kept=kept)
            takes, gives = forms or self._rules.wide(node)
            for position, narrow in enumerate(takes):
                if narrow is not None:
                    self._take(node, position, narrow)
            if forms is not None and self._makes_wide(node):
                version = self._versions.get("", 1)
                state_type(node, self._settings.elem_type, version, self._settings.convert)
            self._made.append(node)
            for position, narrow in enumerate(gives):
                if narrow is not None:
                    self._give(node, position, narrow, wide_outputs)

    def _constants(self, nodes: Sequence[NodeProto]) -> dict[str, _Weight]:
        """Return the Constant nodes that hold what an initialiser might, and that no option asked
        to keep: what they become is settled by those that take them.
        """
        found: dict[str, _Weight] = {}
        for node in nodes:
            if is_constant(node) and len(node.output) == 1 and self._is_wide(node.output[0]):
                tensor = constant_tensor(node)
                if tensor is not None and not self._settings.selection.keeps(node):
                    found[node.output[0]] = _Weight(tensor, node)
        return found

    def form(self, name: str, narrow: bool) -> str:
        """Return the name of a tensor in one of its forms; a Cast makes it where it is missing."""
        scope: Scope | None = self
        forms: dict[bool, str] = {}
        while scope is not None:
            if name in scope._weights:
                return scope._weights[name].form(name, narrow, "an output", scope._narrow_name)
            forms = {**scope._forms.get(name, {}), **forms}
            if name in scope._forms and not scope._is_cast_here(name):
                break
            scope = scope._parent
        if narrow in forms or not forms:
            return forms.get(narrow, name)
        made = unused_name(f"{name}_{self._settings.suffix if narrow else 'fp32'}", self._taken)
        self._cast(forms[not narrow], made, narrow)
        self._forms.setdefault(name, {})[narrow] = made
        return made

    def _is_cast_here(self, name: str) -> bool:
        """Return whether only a form of a tensor is from here, and the tensor from further out."""
        return name not in self._forms[name].values()

    def _cast(self, source: str, target: str, narrow: bool) -> None:
        self._made.append(
            onnx.helper.make_node(
                "Cast",
                [source],
                [target],
                name=unused_name(f"cast_{target}", self._taken),
                to=self._settings.elem_type if narrow else FLOAT,
            )
        )

    def _makes_wide(self, node: NodeProto) -> bool:
        has_result = len(node.output) > 0 and not domain_of(node.domain)
        return has_result and self._is_wide(node.output[0])

    def _is_wide(self, name: str) -> bool:
        return self._types[name] == WIDE

    def _named(self, name: str) -> Collection[bool]:
        """Return in which forms this very name is known here."""
        return [narrow for narrow, made in self._forms.get(name, {}).items() if made == name]

    def _take(self, node: NodeProto, position: int, narrow: bool) -> None:
        """Give a node its operand in a form."""
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
                    node.input[position] = weight.form(name, narrow, reader, self._narrow_name)
                return
            scope = scope._parent
        node.input[position] = self.form(name, narrow)

    def _give(
        self, node: NodeProto, position: int, narrow: bool, wide_outputs: Collection[str]
    ) -> None:
        """Note in which form a node makes a tensor; narrow outputs of a graph are cast at once."""
        name = node.output[position]
        if not (narrow and name in wide_outputs):
            self._forms[name] = {narrow: name}
            return
        made = unused_name(f"{name}_{self._settings.suffix}", self._taken)
        node.output[position] = made
        self._forms[name] = {True: made, False: name}
        self._cast(made, name, False)

    def _present_form(self, name: str) -> bool:
        """Return the form in which a tensor exists already."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._forms:
                return True in scope._forms[name]
            if name in scope._weights:
                return not scope._weights[name].is_used_wide
            scope = scope._parent
        return False

    def _rewrite_inner(
        self, node: NodeProto, inner: Sequence[GraphTypes], *, is_cast: bool, is_kept: bool
    ) -> None:
        for graph, types in zip(graphs_of(node), inner):
            scope = Scope(self._settings, types, self._versions, self)
            scope.rewrite_graph(graph, narrow_border=is_cast, is_kept=is_kept)

    def _settle_weights(self, graph: GraphProto | None = None) -> dict[str, str]:
        """Convert the weights that are taken narrow; those taken both ways get a second form.

        Args:
            graph: the graph that they are in; None for a function, which has no initialisers.

        Returns:
            The names of those that are narrow now, by what they were called in that form.
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
            made = onnx.TensorProto(name=weight.inner_name or self._narrow_name(name))
            self._settings.convert(weight.tensor, made, name, weight.readers)
            for node, position in weight.narrow_uses:
                node.input[position] = made.name
            if weight.node is not None:
                twins[name] = onnx.helper.make_node("Constant", [], [made.name], value=made)
            elif graph is not None:
                graph.initializer.append(made)
            if graph is not None and name in declared:
                value = graph.input.add()
                value.CopyFrom(declared[name])
                value.name = made.name
                value.type.tensor_type.elem_type = self._settings.elem_type
        if twins:
            self._made = [
                each
                for node in self._made
                for each in (node, twins.get(node.output[0]) if is_constant(node) else None)
                if each is not None
            ]
        restored.pop("", None)
        if graph is not None:
            _rename_outputs(graph, restored)
        for node in self._made:
            for inner_graph in graphs_of(node):
                _rename_operands(inner_graph, restored)
        return restored

    def _narrow_name(self, name: str) -> str:
        return unused_name(f"{name}_{self._settings.suffix}", self._taken)


def _rename_outputs(graph: GraphProto, names: Mapping[str, str]) -> None:
    for value in graph.output:
        value.name = names.get(value.name, value.name)


def _rename_operands(graph: GraphProto, names: Mapping[str, str]) -> None:
    _rename_outputs(graph, names)
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name and name in names:
                node.input[position] = names[name]
        for inner in graphs_of(node):
            _rename_operands(inner, names)
