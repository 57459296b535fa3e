"""The quantizing nodes of a model: reading and changing them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import add_weight, delete_where, sort, training_tensors
from polygraphy.adapters.onnx_common.messages import copy_of, graphs_of, outer_names
from polygraphy.domain.quantization.schemes import STORED, Scheme
from polygraphy.domain.quantization.sites import RAW, Site

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    from polygraphy.adapters.onnx.edit.float_graph import FloatGraph

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_MICROSOFT, _OPSET_OF_16_BITS = "com.microsoft", 21
EXACT = "//exact"
"""Suffix of a weight's name for its floating-point form."""
_PRESERVING = ("Clip", "LeakyRelu", "Relu", "Sigmoid", "Tanh")
"""Operators that keep type and shape, behind which a weight is quantized again, too."""
_INTEGER_OPERATORS = (
    "ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat",
)  # fmt: skip
"""Operators that ONNX Runtime's dynamic quantizer and the optimizer behind it write."""
_CORRECTION, _LARGE_CORRECTION = 0.5, 1.9
"""A corrected bias differs by less than this share of the larger rms; NNCF corrects by multiples of
a small bias (lab: up to 1.86, with the other sign). A negated bias differs by 2, and one of another
layer by about 1.4, which is nearer to that layer's.
"""


_NEARER = 0.25
"""A bias belongs to another layer if it differs from that layer's by less than this share of what
it differs from its own. Chosen, not measured."""
_NOTE = "onnx.infer"
"""Metadata key that ONNX Runtime's quantizers add after they infer shapes."""


class SitePair:
    """The quantizing nodes of a site.

    Args:
        number: the position of the site.
        outputs: the tensors that nodes read.
        quantize: the node that stores; None of a weight.
        dequantize: the nodes that read.
        kind: the type in floating point.
        twin: of an operator, the node of the reference that makes the same tensor.
        region: of an operator, its nodes.
        weights: of an operator, the weights of that node.
    """

    def __init__(
        self,
        number: int,
        outputs: list[str],
        quantize: NodeProto | None,
        dequantize: list[NodeProto],
        kind: Any,
        twin: NodeProto | None = None,
        region: Sequence[NodeProto] = (),
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        """Set the nodes of the site with this number."""
        self.number, self.outputs, self.quantize, self.dequantize = (
            number,
            outputs,
            quantize,
            dequantize,
        )
        self.kind, self.twin, self.region = kind, twin, list(region)
        self.weights = dict(weights or {})

    @property
    def output(self) -> str:
        """Return the first of the tensors that this site passes to later nodes."""
        return self.outputs[0]


def copy_pairs(pairs: Sequence[SitePair], old: GraphProto, new: GraphProto) -> list[SitePair]:
    """Return the sites of a graph with the nodes of its copy."""
    old_nodes, new_nodes = [*old.node], [*new.node]
    indexes = {id(node): index for index, node in enumerate(old_nodes)}
    copies = []
    for pair in pairs:
        stores = [] if pair.quantize is None else [pair.quantize]
        first, reads, region = (
            [new_nodes[indexes[id(node)]] for node in nodes]
            for nodes in (stores, pair.dequantize, pair.region)
        )
        copies.append(
            SitePair(
                pair.number,
                pair.outputs,
                first[0] if first else None,
                reads,
                pair.kind,
                pair.twin,
                region,
                pair.weights,
            )
        )
    return copies


def scheme_of_node(node: NodeProto, constant: Any, codes: Array | None = None) -> Scheme | None:
    """Return the quantization scheme of a node; None if it is unknown before the model runs."""
    scale = constant(node.input[1])
    if scale is None:
        return None
    given_constant = constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if given_constant is None and len(node.input) > 2 and node.input[2]:
        return None
    options = {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    dtype = given_constant.dtype.name if given_constant is not None else "uint8"
    if given_constant is None and codes is not None:
        dtype = codes.dtype.name
    elif given_constant is None and options.get("output_dtype"):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(options["output_dtype"]).name
    axis, block = options.get("axis", 1), options.get("block_size", 0)
    if dtype not in STORED or not _is_valid_scale(scale, axis, block, codes):
        return None
    zero = (
        numpy.zeros(scale.shape) if given_constant is None else given_constant.astype(numpy.float64)
    )
    return Scheme(
        dtype,
        scale.astype(numpy.float64),
        zero.reshape(scale.shape),
        axis,
        block,
    )


def _is_valid_scale(scale: Array, axis: int, block: int, codes: Array | None) -> bool:
    """Return whether a scale has a valid shape for codes; any rank is valid for one number."""
    if scale.size == 1:
        return True
    if codes is None:
        return bool(block) or scale.ndim == 1
    if not -codes.ndim <= axis < codes.ndim:
        return False
    if not block:
        return bool(scale.shape == (codes.shape[axis],))
    shape = [*codes.shape]
    shape[axis] = -(-shape[axis] // block)
    return bool(scale.shape == tuple(shape))


def producer_of(model: ModelProto) -> str:
    """Return the name of the quantizer that wrote a model; empty if it is not recorded."""
    notes = " ".join(f"{entry.key} {entry.value}" for entry in model.metadata_props)
    maker = f"{model.producer_name} {notes}".lower()
    nodes = model.graph.node
    for name in ("nncf", "modelopt", "olive", "genai", "quark"):
        if name in maker:
            return _nncf_function(nodes) if name == "nncf" else name
    makes = {name for node in nodes for name in node.output}
    reads = [node for node in nodes if node.op_type == DEQUANTIZE]
    if any(node.output[0].startswith("dq_output_") for node in reads) or any(
        node.name.endswith("_compressed_matmul") for node in nodes
    ):
        return _nncf_function(nodes)
    blocks = [node for node in nodes if node.op_type in ("MatMulNBits", "GatherBlockQuantized")]
    ends = tuple(f"_Q{bits}" for bits in (2, 4, 8))
    if blocks:
        names = [name for node in blocks for name in (node.name, *node.input)]
        return "nbits" if any(name.endswith(ends) for name in names) else ""
    if any(node.name.endswith(tuple(f"_DQ{end}" for end in ends)) for node in reads):
        return "nbits"  # The same quantizer, in QDQ format.
    if model.producer_name != "onnx.quantize":
        return ""
    if any(node.output[0].endswith("_dequantized") for node in reads):
        return "neural-compressor"
    if any(node.op_type.startswith("DynamicQuantize") for node in nodes):
        return "dynamic"
    weights = {weight.name for weight in model.graph.initializer}
    pairs = [node for node in nodes if node.op_type == QUANTIZE and node.input[0] in weights]
    stored = any(reader.input[0] not in makes for reader in reads)
    # ModelOpt uses the quantizer of ONNX Runtime, but it keeps weights in floating point before
    # their Q/DQ pairs, and infers shapes itself. ONNX Runtime leaves a note in the metadata if it
    # infers them.
    is_modelopt = not stored and (
        pairs or not any(prop.key == _NOTE for prop in model.metadata_props)
    )
    return "modelopt" if is_modelopt else "static"


def drop_added_suffix(graph: GraphProto, producer: str) -> None:
    """Give the nodes that neural-compressor renamed their own names, by which it excludes them."""
    for node in graph.node if producer == "neural-compressor" else ():
        node.name = node.name.removesuffix("_quant")


def _nncf_function(nodes: Sequence[NodeProto]) -> str:
    """Return the quantizer of NNCF: it compresses weights if no activation is quantized."""
    return "nncf" if any(node.op_type == QUANTIZE for node in nodes) else "nncf-weights"


def quantizer_name(twin: NodeProto, region: Sequence[NodeProto]) -> str:
    """Return the name that a quantizer gives the replaced node:
    ONNX Runtime's dynamic quantizer first replaces a Gemm by a MatMul and an Add."""
    for node in region:
        if node.op_type in _INTEGER_OPERATORS and node.name.endswith("_quant"):
            return node.name.removesuffix("_quant")
    return twin.name


def makers_of(graph: GraphProto) -> dict[str, NodeProto]:
    """Return the node that computes each tensor."""
    return {name: node for node in graph.node for name in node.output if name}


def is_bias_shape(dims: Sequence[int], producer: str) -> bool:
    """Return whether a weight of this shape may be a bias that the quantizer corrected:
    only one axis is longer than 1. NNCF also corrects single elements."""
    count = sum(size > 1 for size in dims)
    return count == 1 or (producer == "nncf" and count == 0 and len(dims) > 0)


def is_corrected(correction: Array, exact: Array, producer: str) -> bool:
    """Return whether a quantizer changed a bias to compensate for an error."""
    if not exact.size:
        return False
    error = float(numpy.sqrt(numpy.mean(numpy.square(correction - exact, dtype=numpy.float64))))
    size = max(float(numpy.sqrt(numpy.mean(numpy.square(array)))) for array in (correction, exact))
    limit = _LARGE_CORRECTION if producer == "nncf" else _CORRECTION
    return 1e-6 * size < error < limit * size


def is_nearer_to_another(array: Array, exact: Array, weights: Iterable[Array]) -> bool:
    """Return whether a bias is much nearer to another bias of the reference than to its own."""
    error = _NEARER * float(numpy.linalg.norm(array - exact))
    return any(
        float(numpy.linalg.norm(array - weight)) < error
        for weight in weights
        if weight.shape == array.shape and weight is not exact
    )


def is_same_scheme(scheme: Scheme, other_scheme: Scheme) -> bool:
    """Return whether two schemes store numbers in the same way."""
    return bool(
        scheme.scale.shape == other_scheme.scale.shape
        and numpy.allclose(scheme.scale, other_scheme.scale, rtol=1e-5, equal_nan=True)
        and numpy.array_equal(scheme.zero_point, other_scheme.zero_point)
    )


def format_of(scheme: Scheme) -> str:
    """Return a quantization scheme as text, such as ``int8, per channel``."""
    if scheme.block:
        return f"{scheme.dtype}, blocks of {scheme.block}"
    return f"{scheme.dtype}, per {'tensor' if scheme.is_per_tensor else 'channel'}"


def channel_axis(readers: Sequence[tuple[NodeProto, int]], rank: int) -> int | None:
    """Return the axis of the output channels of a weight; None if no node reads it as one.

    Args:
        readers: the nodes that read it, with the position of the operand.
        rank: its rank.
    """
    for node, at in readers:
        if at != 1 or rank < 2:
            continue
        if node.op_type == "Gemm":
            transposed = any(
                attribute.name == "transB" and attribute.i for attribute in node.attribute
            )
            return 0 if transposed else 1
        axis = {"Conv": 0, "ConvTranspose": 1, "MatMul": rank - 1}.get(node.op_type)
        if axis is not None:
            return axis
    return None


def convert_codes(codes: Array, dtype: str) -> Array:
    """Return codes as an array of their data type."""
    stored = STORED[dtype]
    if stored.minifloat is not None:
        return codes.astype(numpy.float32).astype(stored.minifloat)
    import ml_dtypes

    return codes.astype(getattr(ml_dtypes, dtype, None) or numpy.dtype(dtype))


def set_axis(node: NodeProto, scheme: Scheme) -> None:
    """Set the axis and the block size of a node from a scheme."""
    attribute = [
        attribute for attribute in node.attribute if attribute.name not in ("axis", "block_size")
    ]
    del node.attribute[:]
    node.attribute.extend(attribute)
    if not scheme.is_per_tensor:
        node.attribute.append(onnx.helper.make_attribute("axis", scheme.axis))
        if scheme.block:
            node.attribute.append(onnx.helper.make_attribute("block_size", scheme.block))


def set_domain(model: ModelProto, node: NodeProto, scheme: Scheme) -> None:
    """Set the domain of a node to one in which ONNX Runtime supports the type of its codes."""
    opset = {entry.domain: entry.version for entry in model.opset_import}
    if scheme.dtype in ("int16", "uint16") and opset.get("", 1) < _OPSET_OF_16_BITS:
        node.domain = _MICROSOFT
        if _MICROSOFT not in opset:
            model.opset_import.append(onnx.helper.make_opsetid(_MICROSOFT, 1))


def weights_between(
    graph: GraphProto, pairs: Sequence[SitePair], sites: Sequence[Site]
) -> dict[int, tuple[int, list[int]]]:
    """Return, by weight, the site before its node and those after.
    These weights may be quantized again.

    Where a weight is in floating point, and its node reads a DequantizeLinear and leads to a
    QuantizeLinear, ONNX Runtime stores it in int8 again, by tensor (WeightBiasQuantization).
    """
    weights_by_name = {name: pair for pair in pairs for name in pair.outputs}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for value in node.input:
            readers.setdefault(value, []).append(node)
    between: dict[int, tuple[int, list[int]]] = {}
    for node in graph.node:
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm"):
            continue
        before, weight = (weights_by_name.get(name) for name in [*node.input][:2])
        if before is None or weight is None or weight.quantize is not None:
            continue
        site, reads = sites[weight.number], sites[before.number].scheme
        is_known = site.kind == "weight" and site.exact is not None
        behind = _sites_behind(graph, pairs, readers, node.output[0]) if is_known else []
        if behind and reads is not None and reads.is_per_tensor:
            between[weight.number] = before.number, behind
    return between


def _sites_behind(
    graph: GraphProto,
    pairs: Sequence[SitePair],
    readers: Mapping[str, Sequence[NodeProto]],
    name: str,
) -> list[int]:
    """Return the sites that a tensor reaches on a path without branches."""
    stored = {id(pair.quantize): pair for pair in pairs if pair.quantize is not None}
    outputs = {value.name for value in graph.output}
    sites_behind: list[int] = []
    names = [name]
    while True:
        nodes = [node for name in names for node in readers.get(name, ())]
        stores = [node for node in nodes if id(node) in stored]
        other_nodes = [node for node in nodes if id(node) not in stored]
        if stores and names[0].endswith(RAW):
            other_nodes = []  # If the site is off, the model contains the original Relu or Clip.
        if not outputs.isdisjoint(names) or len(stores) > 1 or (stores and other_nodes):
            return sites_behind
        if stores:
            pair = stored[id(stores[0])]
            sites_behind.append(pair.number)
            names = pair.outputs
        elif len(other_nodes) == 1 and other_nodes[0].op_type in _PRESERVING:
            names = [other_nodes[0].output[0]]
        else:
            return sites_behind


class SiteForms:
    """Builds forms of a model with some sites in floating point.

    Args:
        model: the model without its weights, with the nodes of both forms of each site; it is
            changed.
        weights: its weights.
        exact: weights in floating point, by name.
        choices: number of a site, its tensor in quantized and in floating-point form, and the name
            under which other nodes read it.
    """

    def __init__(
        self,
        model: ModelProto,
        weights: Sequence[TensorProto],
        exact: Mapping[str, Array],
        choices: Sequence[tuple[int, str, str, str]],
    ) -> None:
        """Sort the nodes, and read their names once."""
        self._shell, self._weights, self._exact = model, weights, exact
        graph = model.graph
        for _, on, off, output in choices:  # Choices have the order of the nodes in each form.
            graph.node.append(onnx.helper.make_node("Choice", [on, off], [output]))
        sort(graph)
        every = [node for node in graph.node if node.op_type != "Choice"]
        inner = {id(node): graphs for node in every if (graphs := graphs_of(node))}
        self._has_graphs = bool(inner)
        outer = {
            key: [name for graph in graphs for name in outer_names(graph)]
            for key, graphs in inner.items()
        }
        self._outputs = [value.name for value in graph.output]
        self._fixed = {*self._outputs}.union(*outer.values())
        self._nodes: list[tuple[NodeProto, list[str], list[str], list[str]]] = []
        self._choices, self._identities = choices, {}
        for node in every:
            reads, makes = node.input[:], node.output[:]
            if node.op_type == "Identity" and not node.name:
                self._identities[makes[0]] = reads[0]
            else:
                self._nodes.append((node, reads, outer.get(id(node), []), makes))
        self._makers = {
            name: at for at, entry in enumerate(self._nodes) for name in entry[3] if name
        }
        self._inputs = {value.name for value in graph.input}
        del graph.node[:]

    def build(
        self, off_sites: Collection[int], requantized_weights: Mapping[str, Array]
    ) -> ModelProto:
        """Return the model with some sites in floating point.

        Args:
            off_sites: the numbers of these sites.
            requantized_weights: other elements of weights in floating point.
        """
        names = dict(self._identities)
        for number, on, exact, output in self._choices:
            names[output] = exact if number in off_sites else on
        copies = {name: names.pop(name) for name in names.keys() & self._fixed}
        chosen, used = self._nodes_to_keep(names, copies)
        new_names = self._new_names(names, copies, chosen, used)
        model: ModelProto = copy_of(self._shell)
        graph = model.graph
        behind: dict[int, list[str]] = {}
        for name, source in copies.items():
            if name in used and new_names.get(last := _last_name(source, names), last) != name:
                behind.setdefault(self._makers.get(last, -1), []).append(name)

        def add_copies(node_index: int) -> None:
            """Add the Identity nodes for tensors with fixed names behind a node (-1: behind the
            inputs).
            """
            for name in behind.get(node_index, ()):
                last = _last_name(copies[name], names)
                last = new_names.get(last, last)
                graph.node.append(onnx.helper.make_node("Identity", [last], [name]))

        add_copies(-1)
        for index in chosen:
            node, reads, _, makes = self._nodes[index]
            copy = graph.node.add()
            copy.CopyFrom(node)
            for names_of, old in ((copy.input, reads), (copy.output, makes)):
                new = [_last_name(name, names) for name in old] if old is reads else old
                new = [new_names.get(name, name) for name in new]
                if new != old:
                    names_of[:] = new
            add_copies(index)
        self._add_weights(model, used, new_names, requantized_weights)
        return model

    def _nodes_to_keep(
        self, names: Mapping[str, str], copies: Mapping[str, str]
    ) -> tuple[list[int], set[str]]:
        """Return the indices of nodes that outputs depend on, and the tensors that they read.
        The indices are in order.

        Args:
            names: other names of tensors.
            copies: for tensors whose name is fixed, the tensors that they copy.
        """
        pending = [*self._outputs, *training_tensors(self._shell)]
        used: set[str] = set()
        chosen: set[int] = set()
        while pending:
            name = _last_name(pending.pop(), names)
            if name in used:
                continue
            used.add(name)
            index = self._makers.get(name)
            if name in copies:
                pending.append(copies[name])
            elif index is not None and index not in chosen:
                chosen.add(index)
                _, reads, outer, _ = self._nodes[index]
                pending += reads
                pending += outer
        return sorted(chosen), used

    def _new_names(
        self,
        names: Mapping[str, str],
        copies: Mapping[str, str],
        chosen: Sequence[int],
        used: Collection[str],
    ) -> dict[str, str]:
        """Return new names of tensors: a tensor with a fixed name is computed directly, and weights
        have their name of the reference unless another tensor has it."""
        new_names: dict[str, str] = {}
        for name, source in copies.items():
            last = _last_name(source, names)
            if name in used and last in self._makers and last.endswith(("//on", "//off")):
                new_names.setdefault(last, name)
        if self._has_graphs:  # Subgraphs can also read weights.
            return new_names
        taken_names = {name for index in chosen for name in self._nodes[index][3]} | self._inputs
        taken_names.update(name for name in used if name not in self._makers)
        for name in self._exact:
            if name in used and (plain := name.removesuffix(EXACT)) not in taken_names:
                taken_names.add(plain)
                new_names[name] = plain
        return new_names

    def _add_weights(
        self,
        model: ModelProto,
        used: Collection[str],
        new_names: Mapping[str, str],
        requantized_weights: Mapping[str, Array],
    ) -> None:
        """Add the weights that nodes read."""
        graph = model.graph
        for annotation in graph.quantization_annotation:
            # Annotations of used tensors are kept, so the weights in them are used as well.
            if annotation.tensor_name in used:
                entries = annotation.quant_parameter_tensor_names
                used = {*used, *(entry.value for entry in entries)}
        unused = {weight.name for weight in self._weights if weight.name not in used}
        graph.initializer.extend(weight for weight in self._weights if weight.name not in unused)
        for name, array in self._exact.items():
            if name in used:
                tensor = onnx.numpy_helper.from_array(requantized_weights.get(name, array))
                add_weight(model, tensor, new_names.get(name, name))
        delete_where(graph.input, lambda value: value.name in unused)
        delete_where(graph.sparse_initializer, lambda sparse: sparse.values.name not in used)
        delete_where(graph.quantization_annotation, lambda value: value.tensor_name not in used)


def _last_name(name: str, names: Mapping[str, str]) -> str:
    """Return the name at the end of a chain of renames."""
    while name in names:
        name = names[name]
    return name


def sort_nodes(copy: ModelProto) -> ModelProto:
    """Return a model whose nodes are in order."""
    sort(copy.graph)
    return copy


def reads_rows(node: NodeProto, makers: Mapping[str, NodeProto]) -> bool:
    """Return whether a DequantizeLinear reads rows that a Gather takes from a weight."""
    maker = makers.get(node.input[0])
    return maker is not None and maker.op_type == "Gather"


def is_shifted(node: NodeProto, constant: Callable[[str], Array | None]) -> bool:
    """Return whether the zero point of a node is not in the middle of its integer range."""
    scheme = scheme_of_node(node, constant)
    return scheme is not None and scheme.replaces_relu


def operator_region(
    name: str,
    makers: Mapping[str, NodeProto],
    reference: FloatGraph,
    order: Mapping[int, int],
) -> list[NodeProto]:
    """Return the nodes that compute a tensor from others that the reference also has."""
    region: dict[int, NodeProto] = {}
    pending = [name]
    while pending and len(region) < 32:
        current = pending.pop()
        node = makers.get(current)
        is_other_site = node is not None and node.op_type == DEQUANTIZE and current != name
        if node is None or id(node) in region or is_other_site:
            continue
        region[id(node)] = node
        pending += [name for name in node.input if name and name not in reference.makers]
    return sorted(region.values(), key=lambda node: order.get(id(node), 0))


def nodes_for_any_rank(node: NodeProto, weights: dict[str, Array]) -> list[NodeProto]:
    """Return nodes that compute the same as a node.
    A Gemm with constant weights becomes a product and a sum, because an optimizer writes it for
    data of two dimensions that have three elsewhere.

    Args:
        node: the node.
        weights: the constants by name; those of the product are replaced.
    """
    attributes = {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    data, weight, *bias_names = node.input
    bias = weights.get(bias_names[0]) if bias_names and bias_names[0] else None
    is_row = bias is not None and (bias.ndim < 2 or bias.shape[0] == 1)
    if (
        node.op_type != "Gemm"
        or attributes.get("transA")
        or weight not in weights
        or not (is_row or not any(bias_names))
    ):
        return [node]
    factors = weights[weight].T if attributes.get("transB") else weights[weight]
    weights[weight] = (factors * factors.dtype.type(attributes.get("alpha", 1))).copy()
    [result] = node.output
    if bias is None:
        return [onnx.helper.make_node("MatMul", [data, weight], [result], node.name)]
    weights[bias_names[0]] = bias * bias.dtype.type(attributes.get("beta", 1))
    product = f"{result}//product"
    return [
        onnx.helper.make_node("MatMul", [data, weight], [product], node.name),
        onnx.helper.make_node("Add", [product, bias_names[0]], [result], f"{node.name}//bias"),
    ]
