"""The nodes of a model that an executed node computes.

The tensors that both graphs have are cuts. Executed nodes that are connected by other tensors are
one group. A group computes the nodes of the model between its outputs and the cuts before them. A
group without a model node came in: casts, reorders and reformats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.profiling.execution import (
    ExecutedNode,
    ExecutionProfile,
    ModelNodes,
    settings_of,
)

FOLDED, REMOVED, UNMATCHED = "folded", "removed", "unmatched"
"""Why no executed node computes a model node: it depends on no input; an optimization removed it,
such as an Identity; or one of the executed nodes with unknown names may compute it.
"""

_CONVERSIONS = frozenset(
    {
        "Cast", "Convert", "CopyNode", "DequantizeLinear", "Identity", "MemcpyFromHost",
        "MemcpyToHost", "QuantizeLinear", "Reformat", "Reorder", "ReorderInput", "ReorderOutput",
    }
)  # fmt: skip
"""Operators that hand on values in another data type or layout."""
_PREFIX_OF_CASTS = "InsertedPrecisionFreeCast_"
_BLOCKED = re.compile(r"^(.+?)(?:_bn)?_nchwc(?:_token_\d+)?$")
"""Names that ONNX Runtime gives to nodes in its blocked layout, after a tensor."""
_COUNTED = re.compile(r"^(.+)_token_\d+$")
_OPERANDS_WITH_SUM = 4
_ACTIVATIONS = frozenset(
    {"Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "QuickGelu", "Relu", "Sigmoid", "Tanh"}
)
_RANGE = "..."


@frozen
class Group:
    """Executed nodes that compute nodes of the model together.

    Attributes:
        nodes: positions of the nodes of the model; empty if it came in.
        executed: positions of the executed nodes.
        shared: positions of nodes that it also computes, but another group has.
    """

    nodes: Sequence[int]
    executed: Sequence[int]
    shared: Sequence[int] = ()


@frozen
class Join:
    """The executed nodes of a profile, assigned to the nodes of a model.

    Attributes:
        groups: those that compute nodes of the model. Each node is in one group at most.
        inserted: positions of executed nodes that compute no node of the model.
        gone: the reason why a node of the model is in no group, by its position.
        unmatched: positions of executed nodes with names and tensors that the model does not have:
            they may compute nodes of the model.
    """

    groups: Sequence[Group]
    inserted: Sequence[int]
    gone: Mapping[int, str]
    unmatched: Sequence[int] = ()


def join_profile(model: ModelNodes, profile: ExecutionProfile) -> Join:
    """Return which executed nodes of a profile belong to which nodes of a model."""
    return _ProfileJoin(model, profile).run()


@define
class _ProfileJoin:
    """Assigns executed nodes to nodes of the model."""

    model: ModelNodes
    profile: ExecutionProfile
    nodes: Sequence[Node] = field(init=False)
    makers: dict[str, int] = field(init=False)
    readers: dict[str, list[int]] = field(init=False)
    executed: Sequence[ExecutedNode] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up the producers and consumers of both graphs."""
        self.nodes = self.model.nodes
        self.makers = self.model.makers()
        self.readers = Graph(nodes=tuple(self.nodes)).consumers
        self.executed = self.profile.nodes

    def run(self) -> Join:
        """Return the join of executed nodes and nodes of the model."""
        by_origin = self._find_origins()
        names = self._resolve_tensors(by_origin)
        produced = [[names.get(name, name) for name in node.makes] for node in self.executed]
        read = [[names.get(name, name) for name in node.reads] for node in self.executed]
        tensors = self._model_tensors()
        for index, node in enumerate(self.executed):
            if (
                node.op in _CONVERSIONS
                and produced[index] == read[index]
                and tensors.isdisjoint(produced[index])
            ):
                # The cast reads and writes the same tensor, which is inside of a group.
                produced[index] = read[index] = []
        for index, origins in by_origin.items():
            if not any(name in tensors for name in produced[index]):
                produced[index] = [*produced[index], *self._last_outputs(origins)]
        members = self._connect(produced, read, tensors, by_origin)
        return self._cover_model(members, produced, read, tensors, by_origin)

    def _model_tensors(self) -> set[str]:
        """Return the tensors and weights of the model; a cast of a weight connects no nodes."""
        read = {name for node in self.nodes for name in node.reads}
        return {*self.makers, *self.model.inputs, *read}

    def _resolve_tensors(self, by_origin: Mapping[int, Sequence[int]]) -> dict[str, str]:
        """Return the tensor of the model for each executed tensor, by name."""
        known_tensors = self._model_tensors()
        names: dict[str, str] = {}
        by_name = {node.label: node for node in self.nodes if node.label}
        last = {
            ends[0]: index
            for index, origins in by_origin.items()
            if len(ends := self._last_outputs(origins)) == 1
        }
        for executed in self.executed:
            for name in (*executed.reads, *executed.makes):
                if name not in known_tensors and name.startswith(_PREFIX_OF_CASTS):
                    plain = name[len(_PREFIX_OF_CASTS) :]
                    counted = _COUNTED.match(plain)
                    if plain not in known_tensors and counted is not None:
                        plain = counted[1]
                    if plain in known_tensors:
                        names[name] = plain
        self._resolve_sources(known_tensors, names)
        for index, executed in enumerate(self.executed):
            makes = executed.makes[:1]
            if (
                not makes
                or makes[0] in names
                or any(name in known_tensors for name in executed.makes)
            ):
                continue
            tensor = self._tensor_of_blocked(executed)
            twin = by_name.get(executed.name)
            ends = self._last_outputs(by_origin[index]) if index in by_origin else []
            if len(ends) == 1:
                if last[ends[0]] == index:
                    # Only the last executed node for this output computes the whole tensor.
                    names.setdefault(executed.makes[0], ends[0])
            elif tensor is not None:
                names.setdefault(executed.makes[0], tensor)
            elif twin is not None and twin.operator == executed.op and twin.makes:
                names.setdefault(executed.makes[0], twin.makes[0])
        self._resolve_by_own_model(known_tensors, names)
        self._resolve_by_conversions(known_tensors, names)
        tensors = {name for node in self.executed for name in (*node.reads, *node.makes)}
        for name in tensors - names.keys():
            plain = name.removeprefix(_PREFIX_OF_CASTS)
            if plain in tensors and name not in known_tensors:
                names[name] = names.get(plain, plain)
        return names

    def _tensor_of_blocked(self, executed: ExecutedNode) -> str | None:
        """Return the tensor of the model that a node in ONNX Runtime's blocked layout computes.
        The result is None if its name shows none.

        Such a node is named after the convolution, even if it also adds another tensor to the
        result and computes the activation after that.
        """
        match = _BLOCKED.match(executed.name)
        tensor = "" if match is None else match[1]
        if tensor not in self.makers:
            tensor = tensor.removeprefix(_PREFIX_OF_CASTS)
        if tensor not in self.makers:
            return None
        if executed.op.rpartition(".")[2] != "Conv" or len(executed.reads) < _OPERANDS_WITH_SUM:
            return tensor
        total = self._next_of(tensor, {"Add", "Sum"})
        if total is None:
            return tensor
        activated = self._next_of(total, _ACTIVATIONS)
        return total if activated is None or self._is_executed(activated) else activated

    def _next_of(self, tensor: str, ops: Iterable[str]) -> str | None:
        """Return the output of the only reader of a tensor with some operator, or None.
        The result is None if there is not exactly one.
        """
        readers = self.readers.get(tensor, [])
        readers_of_type = [
            self.nodes[index] for index in readers if self.nodes[index].operator in ops
        ]
        return (
            readers_of_type[0].makes[0]
            if len(readers_of_type) == 1 and readers_of_type[0].makes
            else None
        )

    def _is_executed(self, tensor: str) -> bool:
        """Return whether the node that computes a tensor was executed separately, under its own
        name and operator."""
        node = self.nodes[self.makers[tensor]]
        return any(
            executed_node.name == node.label
            and executed_node.op.rpartition(".")[2] == node.operator
            for executed_node in self.executed
        )

    def _resolve_by_own_model(self, known_names: set[str], names: dict[str, str]) -> None:
        """Follow casts and quantization in the executed model if it differs from the given one."""
        model_nodes = self.profile.model
        if model_nodes is None or model_nodes is self.model:
            return
        makers = model_nodes.makers()
        for executed in self.executed:
            for name in (*executed.reads, *executed.makes):
                if name in known_names or name in names:
                    continue
                tensor: str | None = name
                for _ in range(len(_CONVERSIONS)):
                    index = makers.get(tensor or "")
                    node = None if index is None else model_nodes.nodes[index]
                    if node is None or node.operator not in _CONVERSIONS or not node.inputs:
                        tensor = None
                        break
                    tensor = node.inputs[0]
                    if tensor in known_names:
                        break
                if tensor is not None and tensor in known_names:
                    names[name] = tensor

    def _resolve_sources(self, known_names: set[str], names: dict[str, str]) -> None:
        """Map the source of a conversion to the tensor of the model that it converts to."""
        for node in reversed(self.executed):
            if node.op.rpartition(".")[2] in _CONVERSIONS and node.reads and node.makes:
                target = names.get(node.makes[0], node.makes[0])
                source = node.reads[0]
                if target in known_names and source not in known_names:
                    names.setdefault(source, target)

    def _resolve_by_conversions(self, known_names: set[str], names: dict[str, str]) -> None:
        """Map the result of a conversion to the tensor of the model that it converts."""
        self._resolve_sources(known_names, names)
        for node in self.executed:
            if node.op.rpartition(".")[2] in _CONVERSIONS and node.reads and node.makes:
                source = names.get(node.reads[0], node.reads[0])
                if source in known_names and node.makes[0] not in known_names:
                    names.setdefault(node.makes[0], source)

    def _find_origins(self) -> dict[int, list[int]]:
        """Return by executed node the positions of the nodes that the backend names."""
        named = {node.label: index for index, node in enumerate(self.nodes)}
        origin_of = {}
        for index, executed in enumerate(self.executed):
            origins: list[int] = []
            for name in executed.origins or self._names_of(executed):
                first, dots, last = name.partition(_RANGE)
                for part in (first, last) if dots else (name,):
                    at = named.get(part, self.makers.get(part))
                    if at is not None and at not in origins:
                        origins.append(at)
            if origins:
                origin_of[index] = origins
        return origin_of

    def _names_of(self, executed: ExecutedNode) -> list[str]:
        """Return the nodes or tensors in the name of an executed node with unknown tensors."""
        if executed.makes:
            return []
        tensor = self._tensor_of_blocked(executed)
        return [executed.name if tensor is None else tensor]

    def _last_outputs(self, origins: Sequence[int]) -> list[str]:
        """Return the outputs of nodes that none of them reads."""
        inside = {name for index in origins for name in self.nodes[index].reads}
        ends = [name for index in origins for name in self.nodes[index].makes]
        return [name for name in ends if name not in inside] or ends[-1:]

    def _connect(
        self,
        produced: Sequence[Sequence[str]],
        read: Sequence[Sequence[str]],
        known_names: set[str],
        by_origin: Mapping[int, Sequence[int]],
    ) -> list[list[int]]:
        """Return executed nodes that are connected by tensors that the model does not have.
        Two nodes whose origins are known are connected only if one has all the origins of the
        other.
        """
        parents = list(range(len(produced)))

        def root(index: int) -> int:
            """Return the representative of the group that an index is in."""
            while parents[index] != index:
                parents[index] = parents[parents[index]]
                index = parents[index]
            return index

        maker: dict[str, int] = {}
        for index, names in enumerate(produced):
            for name in names:
                if name not in known_names:
                    maker[name] = index
        origins = {index: frozenset(nodes) for index, nodes in by_origin.items()}
        for index, names in enumerate(read):
            for name in names:
                if name in maker and _are_parts(origins.get(maker[name]), origins.get(index)):
                    parents[root(index)] = root(maker[name])
        first: dict[frozenset[int], int] = {}
        for index, nodes in origins.items():
            if not self.executed[index].makes:
                # The profile lists no tensors for this node, so connect it by the names of its
                # nodes.
                parents[root(index)] = root(first.setdefault(nodes, index))
        groups: dict[int, list[int]] = {}
        for index in range(len(produced)):
            groups.setdefault(root(index), []).append(index)
        return sorted(groups.values(), key=lambda group: group[-1])

    def _cover_model(
        self,
        members: Sequence[Sequence[int]],
        produced: Sequence[Sequence[str]],
        read: Sequence[Sequence[str]],
        known_names: set[str],
        by_origin: Mapping[int, Sequence[int]],
    ) -> Join:
        """Return the join in which each model node is in exactly one group, or was removed."""
        surviving = {name for names in produced for name in names if name in self.makers}
        dependent_nodes = self.model.dependent_nodes()
        owner: dict[int, int] = {}
        groups: list[Group] = []
        inserted: list[int] = []
        for group in members:
            ends = self._outputs(group, produced, read)
            nodes: list[int] = []
            shared: list[int] = []
            for name in ends:
                region = self._region(name, surviving)
                kept_node = self._original_node(group, name)
                if kept_node is not None:
                    region = [kept_node]
                for index in region:
                    if index not in owner:
                        owner[index] = len(groups)
                        nodes.append(index)
                    elif owner[index] != len(groups):
                        shared.append(index)
            for member in group:
                for index in by_origin.get(member, ()):
                    if index not in owner and not surviving.intersection(self.nodes[index].makes):
                        owner[index] = len(groups)
                        nodes.append(index)
            if nodes:
                groups.append(Group(sorted(nodes), list(group), sorted(set(shared))))
            else:
                inserted.extend(group)
        unmatched = [
            index
            for index in sorted(inserted)
            if known_names.isdisjoint((*produced[index], *read[index]))
            and self.executed[index].op.rpartition(".")[2] not in _CONVERSIONS
        ]
        reason = UNMATCHED if unmatched else REMOVED
        reasons = {
            index: reason if index in dependent_nodes else FOLDED
            for index in range(len(self.nodes))
            if index not in owner
        }
        difference = sorted(set(inserted).difference(unmatched))
        return Join(groups, difference, reasons, unmatched)

    def _outputs(
        self, group: Sequence[int], produced: Sequence[Sequence[str]], read: Sequence[Sequence[str]]
    ) -> list[str]:
        """Return the model tensors that a group computes, without those it only passes on."""
        before = {name for index in group for name in read[index]}
        ends = dict.fromkeys(name for index in group for name in produced[index])
        return [name for name in ends if name in self.makers and name not in before]

    def _original_node(self, group: Sequence[int], tensor: str) -> int | None:
        """Return the node of the model that an executed node is a copy of; None if it differs."""
        if len(group) != 1:
            return None
        executed, index = self.executed[group[0]], self.makers[tensor]
        node = self.nodes[index]
        is_same = (
            node.operator == executed.op
            and len(node.inputs) == len(executed.reads)
            and executed.settings != ""
            and (settings_of(node) or "none") in ("none", executed.settings)
        )
        return index if is_same else None

    def _region(self, tensor: str, surviving: set[str]) -> list[int]:
        """Return the nodes that compute a tensor from executed tensors."""
        region: set[int] = set()
        pending = [tensor]
        while pending:
            index = self.makers.get(pending.pop())
            if index is None or index in region:
                continue
            region.add(index)
            pending += [name for name in self.nodes[index].reads if name not in surviving]
        return sorted(region)


def _are_parts(indices: frozenset[int] | None, other_indices: frozenset[int] | None) -> bool:
    """Return whether two connected executed nodes may compute one node of the model:
    the origins of one are unknown, or among those of the other.
    """
    return (
        indices is None
        or other_indices is None
        or indices <= other_indices
        or other_indices <= indices
    )
