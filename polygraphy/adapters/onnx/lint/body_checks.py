"""Checks the nodes in subgraphs with the values that they read when the node around them runs:
the shapes in a body, and the elements of its tensors, are often known only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import is_constant
from polygraphy.adapters.onnx_common.messages import graphs_of, tensors_read
from polygraphy.domain.checks.operator_call import InvalidNode

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

onnx = mod.lazy_import("onnx")

_MOST_RUNS = 20_000
"""The most nodes that run in one search, so that a long loop ends. Chosen, not measured."""
_DONE = "search ended"
_Key = tuple[str, tuple[str, ...], tuple[str, ...]]
CheckNode = Callable[["ModelProto", Mapping[str, Any]], "list[InvalidNode]"]


def find_violation_in_body(
    model: ModelProto, index: int, arrays: Mapping[str, Any], check_node: CheckNode
) -> InvalidNode | None:
    """Return the first node in the subgraphs of a node that violates the specification on some
    data; None if there is none, or the node cannot be run up to there.

    Args:
        model: the model.
        index: the node of its main graph.
        arrays: the tensors that the node reads.
        check_node: returns the violations of a model with a single node and known inputs.
    """
    from polygraphy.adapters.onnx_common.evaluator import evaluator_of

    node = model.graph.node[index]
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.functions.extend(model.functions)
    read = dict.fromkeys(tensors_read(node))
    part.graph.initializer.extend(one for one in model.graph.initializer if one.name in read)
    constants = [one for one in model.graph.node if is_constant(one) and one.output[0] in read]
    part.graph.node.extend([*constants, node])
    names = [name for name in read if name in arrays]
    for name in names:
        part.graph.input.add(name=name)
    places = dict(_places(node, ""))
    found: list[InvalidNode] = []
    runs = 0

    def watch(proto: NodeProto, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that checks an inner node before it runs it."""
        is_outer = _key_of(proto) == _key_of(node)
        has_links = any(attribute.ref_attr_name for attribute in proto.attribute)
        if is_outer or has_links or graphs_of(proto):
            return run

        def check(*inputs: Any, **options: Any) -> Any:
            """Return the outputs of the node; raise an error if it is invalid."""
            nonlocal runs
            runs += 1
            if runs > _MOST_RUNS:
                raise TimeoutError(_DONE)
            single = onnx.ModelProto(ir_version=model.ir_version)
            single.opset_import.add(domain=proto.domain, version=version)
            single.graph.node.append(proto)
            known = {
                name: np.asarray(value)
                for name, value in zip(proto.input, inputs)
                if name and isinstance(value, (np.ndarray, np.generic))
            }
            for name in known:
                single.graph.input.add(name=name)
            for invalid in check_node(single, known):
                place = places.get(_key_of(proto), proto.name or next(iter(proto.output), ""))
                found.append(
                    InvalidNode(
                        index, invalid.op, invalid.message, invalid.kind, invalid.tensor, place
                    )
                )
                raise TimeoutError(_DONE)
            return run(*inputs, **options)

        return check

    try:
        with np.errstate(all="ignore"):
            evaluator = evaluator_of(part, watched=watch)
            evaluator.run([], {name: arrays[name] for name in names})
    except Exception:  # The node is invalid, or nobody can run it: that is another finding.
        return next(iter(found), None)
    return None


def _key_of(node: NodeProto) -> _Key:
    """Return what identifies a node: its operator, and the tensors that it reads and computes."""
    return node.op_type, tuple(node.input), tuple(node.output)


def _places(node: NodeProto, path: str) -> Iterator[tuple[_Key, str]]:
    """Yield the nodes in the subgraphs of a node, each with its attribute and name."""
    for attribute in node.attribute:
        inner: list[GraphProto] = (
            [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        )
        for graph in inner:
            for position, inner_node in enumerate(graph.node):
                name = inner_node.name or f"polygraphy_unnamed_node_{position}"
                place = f"{path}{attribute.name}/{name}"
                yield _key_of(inner_node), place
                yield from _places(inner_node, f"{place}/")
