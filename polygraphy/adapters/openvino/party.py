"""OpenVINO as a backend of a diagnosis: shows which operators it fuses, and in which precision it
computes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.openvino.compiled import (
    HINT,
    CompiledModelFromOnnx,
    compiled_model_from_onnx,
    default_precision,
    layers_of,
)
from polygraphy.adapters.openvino.runner import OpenvinoRunner
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import region_before
from polygraphy.logger import G_LOGGER

onnx = mod.lazy_import("onnx")

_FUSION = "fusion"
_SWITCHES = {
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "LP_TRANSFORMS_MODE": "NO",
    "SNIPPETS_MODE": "DISABLE",
}
"""Properties that switch rewrites off: activations of compressed weights in integers, quantized
models in integers, and small operators compiled into one.
"""
_FUSED = "polygraphy.openvino"
"""The domain of nodes that represent a fused group, whose nodes are their subgraph."""
_BODY = "body"
_TYPES = {"bf16": "bf16", "f16": "fp16"}
"""Names of reduced-precision types in a diagnosis, by OpenVINO's names."""


@mod.export()
class OpenvinoParty:
    """OpenVINO; implements the ports `SuspectedParty` and `LoweringParty`.

    The argument `without` of `load` contains rewrites, or names of nodes that compute in float32.
    """

    name = "openvino"
    passes = (_FUSION, *_SWITCHES)
    rewrites = True
    levels: tuple[str, ...] = ()
    lowered = None
    survives_fork = False

    def __init__(
        self,
        device: str | None = None,
        precision_hint: str | None = None,
        threads: int | None = None,
        properties: Mapping[str, str] | None = None,
        float32_tensors: Sequence[str] | None = None,
        fuse: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Set how models are compiled (see `CompiledModelFromOnnx`), and the name of the backend in
        a diagnosis.
        """
        self.name = name or type(self).name
        self._how: dict[str, Any] = {
            "device": device,
            "precision_hint": precision_hint,
            "threads": threads,
            "properties": dict(properties or {}),
            "float32_tensors": list(float32_tensors or ()),
            "fuse": fuse,
        }
        self._tensors: dict[str, str] = {}

    @property
    def backend(self) -> str:
        """Return the flag of its kind, without the dashes."""
        return type(self).name

    @property
    def uses_device(self) -> bool:
        """Return whether it compiles for a device other than the CPU."""
        return (self._how["device"] or "CPU") != "CPU"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the compile settings for other environments; see the port.
        Settings that change the graph need this package."""
        how = self._how
        named = {HINT: how["precision_hint"], "INFERENCE_NUM_THREADS": how["threads"]}
        properties = {name: value for name, value in named.items() if value is not None}
        values: dict[str, Any] = {
            "device": how["device"] or "CPU",
            "properties": {**properties, **how["properties"]},
        }
        if how["fuse"] is not False and not how["float32_tensors"]:
            values["module"] = "openvino"
        return MappingProxyType(values)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options that compile models in this way; see the port."""
        how = self._how
        options = {
            "openvino_device": how["device"],
            "openvino_precision": how["precision_hint"],
            "openvino_threads": how["threads"],
            "no_openvino_fusion": how["fuse"] is False,
            "openvino_properties": how["properties"],
            "openvino_float32": tuple(how["float32_tensors"]),
        }
        return {name: value for name, value in options.items() if value}

    @property
    def lowers_to(self) -> str | None:
        """Return the compute type if it is less precise than float32, as requested or by default;
        else None."""
        precision = self._how["precision_hint"] or self._how["properties"].get(HINT)
        if precision is None:
            precision = default_precision(self._how["device"] or "CPU")
        return _TYPES.get(precision)

    def in_float32(self) -> OpenvinoParty:
        """Return the same backend, computing in float32."""
        return OpenvinoParty(**{**self._how, "precision_hint": "f32"}, name=self.name)

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function that runs the compiled model; see the port."""
        groups = evaluate(model)
        how = self._options_without(plain=plain, without=without)
        if not isinstance(groups, str) and any(node.domain == _FUSED for node in groups.graph.node):
            groups = _expand_groups(groups)
            # The backend runs fused groups as usual, in float32: `plain` and `without` do not
            # apply.
            how = {**self._how, "precision_hint": "f32"}
        nodes = set(without) - set(self.passes)
        if nodes and not plain:
            value = (
                onnx.load(groups, load_external_data=False) if isinstance(groups, str) else groups
            )
            tensors = _tensors_of(value, nodes)
            self._tensors.update(tensors)  # A remedy may join nodes of several loads.
            how["float32_tensors"] = [*how["float32_tensors"], *tensors.values()]
        runner = OpenvinoRunner(partial(_compile_model, groups, how))
        runner.is_watched = False  # A part that crashes is run again in a separate process.
        with G_LOGGER.verbosity(G_LOGGER.ERROR):
            # Hide warnings about precision, because the diagnosis reports it.
            runner.activate()
        return partial(runner.infer, check_inputs=False)

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the model with one node for each fused group; None if the groups are unknown."""
        proto = onnx.load(model) if isinstance(model, str) else model
        how = {**self._options_without(plain=False, without=without), "precision_hint": "f32"}
        layers = layers_of(compiled_model_from_onnx(proto, **how))
        return _fuse_nodes(proto, [layer.names for layer in layers]) if layers else None

    def remedy(self, *, plain: bool, without: Collection[str]) -> dict[str, Any]:
        """Return the options that compile a model as `load` does with these arguments."""
        nodes = [] if plain else [name for name in without if name not in self.passes]
        how = self._options_without(plain=plain, without=without)
        if nodes:
            tensors = (self._tensors.get(name, name) for name in nodes)
            how["float32_tensors"] = [*how["float32_tensors"], *tensors]
        return OpenvinoParty(**how).options

    def _options_without(self, *, plain: bool, without: Collection[str]) -> dict[str, Any]:
        """Return the options without some optimizations; if `plain`, also in float32."""
        off = set(self.passes if plain else without)
        how = dict(self._how)
        how["properties"] = {
            **how["properties"],
            **{key: value for key, value in _SWITCHES.items() if key in off},
        }
        if _FUSION in off:
            how["fuse"] = False
        if plain:
            how["precision_hint"], how["float32_tensors"] = "f32", []
        return how


def _compile_model(model: Any, how: Mapping[str, Any]) -> Any:
    """Return a compiled model; float32 tensors of nodes that were folded are ignored."""
    try:
        return CompiledModelFromOnnx(model, **how)()
    except UnknownNameError as error:
        names = [name for name in how["float32_tensors"] if name in error.known]
        if len(names) == len(how["float32_tensors"]):
            raise
        return CompiledModelFromOnnx(model, **{**how, "float32_tensors": names})()


def _tensors_of(proto: Any, nodes: Collection[str]) -> dict[str, str]:
    """Return the first tensor that each node computes, by the name of the node."""
    named = {node.name or node.output[0]: node.output[0] for node in proto.graph.node}
    return {name: named[name] for name in nodes if name in named}


def _fuse_nodes(proto: Any, layers: Sequence[Sequence[str]]) -> Any:
    """Return a copy of a model with one node for each group of nodes that became one layer.

    Args:
        proto: the model.
        layers: the operators of each layer, by their own names or the names of their outputs.
    """
    nodes = [
        Node(node.name, node.op_type, "", tuple(node.input), tuple(node.output))
        for node in proto.graph.node
    ]
    names = {name: name for node in nodes for name in node.makes}
    names |= {node.label: node.makes[0] for node in nodes if node.label and node.makes}
    graph = Graph(nodes=tuple(nodes))
    order = graph.producers
    surviving = {value.name for value in (*proto.graph.output, *proto.graph.input)}
    for layer in layers:
        new_names = [names[name] for name in layer if name in names]
        surviving |= {max(new_names, key=order.__getitem__)} if new_names else set()
    whole_names = {
        name for node in proto.graph.node if _is_kept_whole(node) for name in node.output
    }
    read = {name for node in proto.graph.node if _is_kept_whole(node) for name in node.input}
    surviving |= whole_names | read
    fused = onnx.ModelProto()
    fused.CopyFrom(proto)
    del fused.graph.node[:]
    for index, node in enumerate(proto.graph.node):
        for name in (name for name in node.output if name in surviving):
            region = region_before(graph, name, surviving)
            if region == [index]:
                fused.graph.node.append(node)
                break
            fused.graph.node.append(
                _join_nodes([proto.graph.node[index] for index in region], name)
            )
    fused.opset_import.append(onnx.helper.make_opsetid(_FUSED, 1))
    return fused


def _is_kept_whole(node: Any) -> bool:
    """Return whether a node is left unchanged because its subgraphs read outer tensors by name."""
    return len(node.output) != 1 or any(attribute.HasField("g") for attribute in node.attribute)


def _join_nodes(nodes: Sequence[Any], tensor: str) -> Any:
    """Return one node for several that compute a tensor."""
    names = {name for node in nodes for name in node.output}
    requested_values = dict.fromkeys(
        name for node in nodes for name in node.input if name and name not in names
    )
    untyped = onnx.helper.make_empty_tensor_value_info
    body = onnx.helper.make_graph(
        nodes, "body", [*map(untyped, requested_values)], [untyped(tensor)]
    )
    op = "".join(node.op_type for node in nodes[:4])
    joined = onnx.helper.make_node(
        op, list(requested_values), [tensor], name=nodes[-1].name, domain=_FUSED
    )
    joined.attribute.append(onnx.helper.make_attribute(_BODY, body))
    return joined


def _expand_groups(proto: Any) -> Any:
    """Return a copy of a model with the nodes of each group in place of the group."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    del model.graph.node[:]
    for number, node in enumerate(proto.graph.node):
        if node.domain != _FUSED:
            model.graph.node.append(node)
            continue
        body = next(attribute.g for attribute in node.attribute if attribute.name == _BODY)
        called = {value.name: name for value, name in zip(body.input, node.input)}
        called |= {body.output[0].name: node.output[0]}
        for inner in body.node:
            written = model.graph.node.add()
            written.CopyFrom(inner)
            for names in (written.input, written.output):
                fresh = [name and called.get(name, f"{name}:{number}") for name in names]
                names[:] = fresh
    return model
