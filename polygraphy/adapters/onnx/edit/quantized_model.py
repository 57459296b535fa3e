"""A quantized model whose sites can be switched off one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.edit.block_weights import block_weight
from polygraphy.adapters.onnx.edit.float_graph import (
    FloatGraph,
    MissingPair,
    constant_reader,
    is_unpaired,
    restore_activations,
)
from polygraphy.adapters.onnx.edit.integer_operators import replace_by_pairs, split_biases
from polygraphy.adapters.onnx.edit.lazy_branches import replace_where_by_if
from polygraphy.adapters.onnx.edit.quantized_nodes import (
    DEQUANTIZE,
    EXACT,
    QUANTIZE,
    SiteForms,
    SitePair,
    channel_axis,
    copy_pairs,
    drop_added_suffix,
    format_of,
    is_bias_shape,
    is_corrected,
    is_nearer_to_another,
    is_same_scheme,
    makers_of,
    nodes_for_any_rank,
    operator_region,
    producer_of,
    quantizer_name,
    reads_rows,
    scheme_of_node,
    sort_nodes,
    weights_between,
)
from polygraphy.adapters.onnx.edit.quantized_schemes import SchemeEditor
from polygraphy.adapters.onnx.edit.reference_names import (
    common_share,
    name_scaled_products,
    rename_nodes,
    rename_operators,
    sort_forms,
)
from polygraphy.adapters.onnx.edit.reference_pairs import rename_as_reference
from polygraphy.adapters.onnx.edit.weight_products import replace_products
from polygraphy.adapters.onnx.graph.graph import (
    add_weight,
    clean,
    rename_uses,
    sort,
)
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx_common.messages import copy_of, identity_of
from polygraphy.domain.quantization.schemes import Scheme, scheme_of_range
from polygraphy.domain.quantization.sites import (
    CORRECTED,
    RAW,
    FloatNode,
    Kind,
    Site,
    is_coarse,
)
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

SWITCHES = "polygraphy//switches"
"""The input that switches each site on or off."""
_AGAIN = "//again"
"""Suffix of a weight that the backend quantizes again."""
_WITH_BIAS = ("Conv", "ConvTranspose", "Gemm")
"""Operators whose bias is their third input: a first or second one is not a bias."""
_KEEP_BIASES = ("modelopt", "static", "dynamic", "nbits")
"""Quantizers that do not compensate in biases for the errors of weights."""
_SMALL = 4096
"""Constants with at most this number of elements are decoded once: scales and zero points."""
_NAMED = 0.5
"""A model that has less than this share of the tensor names of its reference was renamed. Chosen,
not measured."""
_ALIKE = 0.5
"""A weight of the reference may differ from the quantized one by this share of its RMS. Chosen,
not measured."""


def open_quantized(model: ModelProto, references: Sequence[ModelProto]) -> QuantizedModel:
    """Return a model with its quantization sites; see the port."""
    forms = sort_forms(model, references)
    opened = QuantizedModel(model, [FloatGraph(form.graph) for form in forms])
    opened.reference = forms[0] if forms else None
    for number, form in enumerate(forms[1:], 1) if opened.renamed else ():
        # Names do not show which form the quantizer read, but the number of counterparts does.
        order = [form, *forms[:number], *forms[number + 1 :]]
        alternative = QuantizedModel(model, [FloatGraph(item.graph) for item in order])
        if alternative.renamed > opened.renamed:
            opened, opened.reference = alternative, form
    return opened


def open_node_weights(model: ModelProto, reference: ModelProto) -> Iterator[QuantizedModel]:
    """Yield a model for each node that reads quantized weights; see the port."""
    graph = model.graph
    twins: dict[str, NodeProto] = {}
    weights = {weight.name: weight for weight in graph.initializer}
    floats = {weight.name: weight for weight in reference.graph.initializer}
    for float_node in reversed(reference.graph.node):
        twins |= dict.fromkeys((float_node.name, *float_node.output), float_node)
    makers = makers_of(graph)
    for node in graph.node:
        before = [*_dequantizers(node, makers, weights)]
        if node.op_type in (QUANTIZE, DEQUANTIZE) or not (before or is_coarse(node.op_type)):
            continue
        part = onnx.ModelProto(producer_name=model.producer_name)
        part.opset_import.extend(model.opset_import)
        part.metadata_props.extend(model.metadata_props)
        _add_nodes(part.graph, [*before, node], weights)
        names = (node.name, node.name.removesuffix("_quant"), node.output[0])
        twin = next((twins[name] for name in names if name in twins), None)
        float_part = onnx.GraphProto()
        _add_nodes(float_part, [] if twin is None else [twin], floats)
        yield QuantizedModel(part, [FloatGraph(float_part)])


def _dequantizers(
    node: NodeProto, makers: Mapping[str, NodeProto], weights: Collection[str]
) -> Iterator[NodeProto]:
    """Yield the nodes that dequantize the weights of a node, after those that quantize them."""
    for reader in (makers[name] for name in node.input if name in makers):
        if reader.op_type != DEQUANTIZE:
            continue
        encoder = makers.get(reader.input[0])
        if reader.input[0] in weights:
            yield reader
        elif encoder is not None and encoder.op_type == QUANTIZE and encoder.input[0] in weights:
            yield from (encoder, reader)


def _add_nodes(
    graph: GraphProto, nodes: Sequence[NodeProto], weights: Mapping[str, TensorProto]
) -> None:
    """Add nodes to a graph, with the weights that they read and the outputs of the last one."""
    graph.node.extend(nodes)
    names = {name: name in weights for node in nodes for name in node.input if name}
    graph.initializer.extend(weights[name] for name, is_weight in names.items() if is_weight)
    computed = {name for node in nodes for name in node.output}
    free = [name for name, is_weight in names.items() if not is_weight and name not in computed]
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in free)
    graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in (nodes[-1].output if nodes else ())
    )


class QuantizedModel:
    """A model with its quantization sites; implements the port `QuantizedModel`.

    Attributes:
        sites: the places where it is quantized.
        nodes: the computing nodes, as before the quantization.
        producer: the quantizer that made it; empty if unknown.
        reference: the form of the reference that the quantizer read; None without a reference.
        renamed: the number of nodes that got the names of the reference.
    """

    reference: ModelProto | None = None
    renamed: int = 0

    def __init__(self, model: ModelProto, references: Sequence[FloatGraph]) -> None:
        """Find the quantization sites of a model, with weights and tensors of the references."""
        self._model: ModelProto = copy_of(model)
        self._references = references
        self.producer = producer_of(model)
        self.was_rewritten = replace_by_pairs(self._model) | replace_products(self._model)
        self._graph = self._model.graph
        drop_added_suffix(self._graph, self.producer)
        for reference in references[:1]:
            if common_share(self._graph, reference.graph) < _NAMED:
                self.renamed = rename_as_reference(self._graph, reference.graph)
            split_biases(self._graph, reference.makers)
            name_scaled_products(self._graph, reference)
            rename_operators(self._graph, reference)
            rename_nodes(self._graph, reference)
        self.sites: list[Site] = []
        self._activations: set[str] = set()
        self._pairs: list[SitePair] = []
        self._dequantized: dict[str, str] = {}
        self._aliases: dict[str, list[str]] = {}
        self._unnamed: dict[str, str] = {}  # Names of unnamed nodes before a removed Relu.
        missing: Sequence[MissingPair] = ()
        for reference in references[:1]:
            is_static = self.producer in ("static", "olive")
            self._unnamed, missing = restore_activations(
                self._model, reference, is_static=is_static
            )
        self._find_pairs()
        self._add_missing_pairs(missing)
        self._add_operators()
        if self.sites:
            self._find_corrections()

    def named_reference(self, names: Mapping[str, str]) -> ModelProto | None:
        """Return the reference with other names; see the port."""
        if self.reference is None:
            return None
        copy: ModelProto = copy_of(self.reference)
        rename_uses(copy.graph, names)
        for node in copy.graph.node:
            node.name = identity_of(node)
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in (*copy.graph.input, *copy.graph.output):
            value.name = names.get(value.name, value.name)
        return copy

    @cached_property
    def nodes(self) -> list[FloatNode]:
        """Return the computing nodes, with the tensors that they read before quantization."""
        found_nodes = []
        operators = {pair.output: pair for pair in self._pairs if pair.twin is not None}
        hidden = {id(node) for pair in operators.values() for node in pair.region}
        for node in self._graph.node:
            if id(node) in hidden:
                pair = operators.get(node.output[0])
                if pair is not None and pair.twin is not None:
                    makes = tuple(pair.outputs)
                    reads = tuple(name for name in pair.twin.input if name)
                    identity, op = identity_of(pair.twin), pair.twin.op_type
                    name = quantizer_name(pair.twin, pair.region)
                    found_nodes.append(FloatNode(identity, op, reads, makes, name))
            elif node.op_type not in (QUANTIZE, DEQUANTIZE, "Constant") and not is_unpaired(node):
                reads = tuple(self._dequantized.get(name, name) for name in node.input if name)
                makes = tuple(
                    alias
                    for name in node.output
                    if name
                    for alias in (name, *self._aliases.get(name, ()))
                )
                identity = self._unnamed.get(identity_of(node), identity_of(node))
                if not node.name:
                    # ONNX Runtime renames the tensor of a graph output, so find the node by its
                    # output.
                    identity = identity.removesuffix("_QuantizeLinear_Input")
                found_nodes.append(FloatNode(identity, node.op_type, reads, makes, node.name))
        return found_nodes

    def add_switches(self, *, requantizes: bool = False, is_lazy: bool = False) -> ModelProto:
        """Return the model with an additional input that switches each site on or off."""
        copy, graph = self._copy_graph()
        between = self._weights_between if requantizes else {}
        weights: dict[str, Array] = {}
        graph.input.append(
            onnx.helper.make_tensor_value_info(SWITCHES, onnx.TensorProto.BOOL, [len(self.sites)])
        )
        makers = makers_of(graph)
        for pair in self._pairs:
            number = pair.number
            at, flag = f"{SWITCHES}/{number}", f"{SWITCHES}/{number}/on"
            add_weight(copy, onnx.numpy_helper.from_array(numpy.int64(number)), at)
            graph.node.append(onnx.helper.make_node("Gather", [SWITCHES, at], [flag]))
            for on, exact, output in self._rename_results(graph, weights, pair, makers):
                off = self._requantize_weight(copy, number, exact) if number in between else exact
                graph.node.append(onnx.helper.make_node("Where", [flag, on, off], [output]))
        for name, array in weights.items():
            add_weight(copy, onnx.numpy_helper.from_array(array), name)
        clean(graph)
        if is_lazy:
            again = [f"{self.sites[number].name}{_AGAIN}/on" for number in between]
            flags = [f"{SWITCHES}/{pair.number}/on" for pair in self._pairs]
            replace_where_by_if(graph, [*again, *flags])
        return sort_nodes(copy)

    @cached_property
    def requantizable_weights(self) -> dict[int, tuple[int, Sequence[int]]]:
        """Return the site before the node of each weight to quantize again, and those after it."""
        return {
            weight: (before, tuple(behind))
            for weight, (before, behind) in self._weights_between.items()
        }

    def _requantize_weight(self, copy: ModelProto, number: int, exact: str) -> str:
        """Add a weight that is quantized again, and return its name;
        it is used while the sites around it are on."""
        before, behind = self._weights_between[number]
        again = f"{self.sites[number].name}{_AGAIN}"
        add_weight(copy, onnx.numpy_helper.from_array(self._requantized_weight(number)), again)
        at = f"{again}/on"
        nodes = copy.graph.node
        nodes.append(onnx.helper.make_node("Identity", [f"{SWITCHES}/{behind[0]}/on"], [f"{at}0"]))
        for count, node_behind in enumerate(behind[1:]):
            reads = [f"{at}{count}", f"{SWITCHES}/{node_behind}/on"]
            nodes.append(onnx.helper.make_node("Or", reads, [f"{at}{count + 1}"]))
        reads = [f"{at}{len(behind) - 1}", f"{SWITCHES}/{before}/on"]
        nodes.append(onnx.helper.make_node("And", reads, [at]))
        nodes.append(onnx.helper.make_node("Where", [at, again, exact], [f"{again}/chosen"]))
        return f"{again}/chosen"

    def _requantized_weight(self, number: int) -> Array:
        """Return the elements of a weight that the backend quantizes again."""
        array = self.sites[number].exact
        assert array is not None
        like = Scheme("int8", numpy.float64(1), numpy.float64(0))
        scheme = scheme_of_range(like, array.min(), array.max(), symmetric=False)
        return scheme.values(scheme.codes(array)).astype(self._pairs[number].kind)

    @cached_property
    def _weights_between(self) -> dict[int, tuple[int, list[int]]]:
        """Return the weights that ONNX Runtime may quantize again; see `weights_between`."""
        return weights_between(self._graph, self._pairs, self.sites)

    def float_at_sites(self, off: Collection[int], *, requantizes: bool = False) -> ModelProto:
        """Return the model with some sites in floating point; see the port."""
        numbers, again = set(off), {}
        for number, (before, behind) in self._weights_between.items() if requantizes else ():
            if number in numbers and before not in numbers and not numbers.issuperset(behind):
                again[f"{self.sites[number].name}{EXACT}"] = self._requantized_weight(number)
        return self._forms.build(numbers, again)

    @cached_property
    def _forms(self) -> SiteForms:
        """Return the builder of models with some sites in floating point."""
        copy, graph = self._copy_graph()
        del graph.initializer[:]
        makers = makers_of(graph)
        weights: dict[str, Array] = {}
        choices = [
            (pair.number, *names)
            for pair in self._pairs
            for names in self._rename_results(graph, weights, pair, makers, folds=False)
        ]
        return SiteForms(copy, self._graph.initializer, weights, choices)

    def with_activations(self) -> ModelProto:
        """Return the model in floating point, with the activations of its sites as outputs."""
        copy = self.float_at_sites(range(len(self.sites)))
        names = {name for node in copy.graph.node for name in node.output}
        remote_names = {value.name for value in copy.graph.output}
        copy.graph.output.extend(
            onnx.ValueInfoProto(name=name)
            for site in dict.fromkeys(self.source(site) for site in self.sites)
            for name in (site, f"{site}{RAW}")
            if name in names - remote_names
        )
        return copy

    def source(self, site: Site) -> str:
        """Return the tensor that an activation site quantizes."""
        return site.name.partition("//again")[0]

    def with_schemes(self, schemes: Mapping[int, Scheme | None]) -> QuantizedModel:
        """Return the model with other parameters at some sites.
        For None, a bias is computed from its operands."""
        repaired_model = QuantizedModel(self._change_schemes(schemes)._model, self._references)
        repaired_model.reference = self.reference
        return repaired_model

    def proto_with_schemes(self, schemes: Mapping[int, Scheme | None]) -> ModelProto:
        """Return the model file of `with_schemes`, which takes a tenth of the time."""
        return self._change_schemes(schemes).float_at_sites(())

    def _change_schemes(self, schemes: Mapping[int, Scheme | None]) -> QuantizedModel:
        """Return a copy with other parameters; its sites are still those from before."""
        changed = shallow_copy(self)
        for name in ("_forms", "_readers"):
            changed.__dict__.pop(name, None)
        changed._model = copy_of(self._model)
        changed._graph = changed._model.graph
        changed._pairs = copy_pairs(self._pairs, self._graph, changed._graph)
        editor = SchemeEditor(changed._model, changed.sites, changed._pairs, changed.nodes)
        editor.change(schemes)
        return changed

    def _copy_graph(self) -> tuple[ModelProto, GraphProto]:
        """Return a copy of the model and its graph, without declared shapes."""
        copy: ModelProto = copy_of(self._model)
        del copy.graph.value_info[:]
        return copy, copy.graph

    def _rename_results(
        self,
        graph: GraphProto,
        weights: dict[str, Array],
        pair: SitePair,
        makers: Mapping[str, NodeProto],
        *,
        folds: bool = True,
    ) -> Iterator[tuple[str, str, str]]:
        """Rename a site's results; yield new name, floating-point tensor and old name of each.
        It also adds nodes and `weights` in floating point.
        """
        site = self.sites[pair.number]
        renamed = set(pair.outputs)
        nodes = {id(makers[name]): makers[name] for name in pair.outputs if name in makers}
        for node in nodes.values():
            node.output[:] = [f"{name}//on" if name in renamed else name for name in node.output]
        exact = self._exact_tensor(graph, weights, pair, site, "//float" if folds else "")
        for output in pair.outputs:
            if folds and site.values is not None and pair.twin is None:
                weights[f"{output}//folded"] = site.values.astype(pair.kind)
                yield f"{output}//folded", exact or f"{output}//folded", output
            elif pair.twin is not None:
                yield f"{output}//on", f"{output}//off", output
            else:
                yield f"{output}//on", exact or f"{output}//on", output

    def _exact_tensor(
        self,
        graph: GraphProto,
        weights: dict[str, Array],
        pair: SitePair,
        site: Site,
        suffix: str,
    ) -> str:
        """Return the floating-point tensor for a site, and add its nodes; empty if unknown."""
        if pair.twin is not None:
            twin = onnx.NodeProto()
            twin.CopyFrom(pair.twin)
            twin.name = f"{twin.name}{suffix}" if twin.name else ""
            names = {}
            for name in dict.fromkeys(twin.input):
                array = pair.weights.get(name)
                if array is not None:
                    names[name] = f"{pair.output}//{name}"
                    weights[names[name]] = array
            twin.input[:] = [names.get(name, name) for name in twin.input]
            twin.output[:] = [
                f"{output}//off" if output in pair.outputs else "" for output in twin.output
            ]
            graph.node.extend(nodes_for_any_rank(twin, weights))
            return f"{pair.output}//off"
        if site.kind == "activation":
            return self.source(site)
        if site.exact is None:
            return ""
        name = f"{site.name}{EXACT}"
        weights[name] = site.exact.astype(pair.kind, copy=False)
        return name

    @cached_property
    def _readers(self) -> dict[str, list[tuple[NodeProto, int]]]:
        """Return for each tensor the nodes that read it, with the position of the operand."""
        readers: dict[str, list[tuple[NodeProto, int]]] = {}
        for node in self._graph.node:
            for at, name in enumerate(node.input):
                readers.setdefault(name, []).append((node, at))
        return readers

    @property
    def _weights(self) -> dict[str, Any]:
        """Return the initializers by name."""
        return {weight.name: weight for weight in self._graph.initializer}

    @property
    def _makers(self) -> dict[str, NodeProto]:
        """Return the node that computes each tensor."""
        return makers_of(self._graph)

    def _add_missing_pairs(self, missing: Sequence[MissingPair]) -> None:
        """Add the sites at which nodes read a tensor without the pair that replaces its Relu."""
        by_name = {site.name: site.scheme for site in self.sites if site.kind == "activation"}
        default = Scheme("uint8", numpy.float64(1), numpy.float64(0))
        replacing_sites = (
            site for site in by_name.values() if site is not None and site.replaces_relu
        )
        for tensor, node in missing:
            like = by_name.get(tensor) or next(replacing_sites, default)
            name, number, output = self._new_activation(tensor), len(self.sites), node.output[0]
            site = Site(name, "activation", like, format=format_of(like), is_missing=True)
            self.sites.append(site)
            self._pairs.append(SitePair(number, [output], None, [node], numpy.float32))
            self._dequantized[output] = name

    def _find_pairs(self) -> None:
        """Find and record all sites of QuantizeLinear and DequantizeLinear."""
        constant_value = constant_reader(self._graph)
        readers: dict[str, list[NodeProto]] = {}
        for node in self._graph.node:
            if node.op_type == DEQUANTIZE:
                readers.setdefault(node.input[0], []).append(node)
        for node in self._graph.node:
            if node.op_type == QUANTIZE and node.output[0] in readers:
                self._add_activation(node, readers[node.output[0]], constant_value)
        for name, nodes in readers.items():
            codes = constant_value(name)
            for node in nodes if codes is not None else ():
                self._add_weight(node, codes, constant_value)

    def _new_activation(self, tensor: str) -> str:
        """Return the name of another site of an activation."""
        name, aliases = tensor, self._aliases.setdefault(tensor, [])
        if tensor in self._activations:
            name = f"{tensor}//again{len(aliases)}"
            aliases.append(name)
        self._activations.add(name)
        return name

    def _add_activation(self, node: NodeProto, readers: list[NodeProto], constant: Any) -> None:
        """Add the site of a quantized activation."""
        scheme, *reads = (scheme_of_node(end, constant) for end in (node, *readers))
        if scheme is None or None in reads:
            return
        read = min(filter(None, reads), key=lambda other: is_same_scheme(scheme, other))
        exact = constant(node.input[0])
        tensor = self._dequantized.get(node.input[0], node.input[0]).removesuffix(RAW)
        name, number = self._new_activation(tensor), len(self.sites)
        differs = not is_same_scheme(scheme, read)
        outputs = [reader.output[0] for reader in readers]
        axis = None
        if exact is not None:
            axis = channel_axis(self._readers.get(outputs[0], ()), exact.ndim)
        values = read.values(scheme.codes(exact)) if exact is not None else None
        self.sites.append(
            Site(
                name,
                "activation" if exact is None else "weight",
                scheme,
                read if differs else None,
                values,
                exact,
                None if exact is None else scheme.codes(exact),
                format_of(scheme),
                channel_axis=axis,
            )
        )
        kind = numpy.float32 if exact is None else exact.dtype
        self._pairs.append(SitePair(number, outputs, node, readers, kind))
        self._dequantized |= dict.fromkeys(outputs, name)

    def _add_weight(self, node: NodeProto, codes: Array | None, constant: Any) -> None:
        """Add the site of a quantized weight."""
        scheme = scheme_of_node(node, constant, codes)
        if scheme is None or codes is None:
            return
        output, number = node.output[0], len(self.sites)
        stored = codes.astype(numpy.float64)
        values = scheme.values(stored)
        stem = output.removesuffix("_DequantizeLinear_Output").removesuffix("_dequantized")
        stem = stem if stem != output else node.input[0].removesuffix("_quantized")
        exact = self._exact_weight((output, stem, f"{stem}".removesuffix("_q")), values, output)
        kind: Kind = "bias" if scheme.dtype == "int32" else "weight"
        scale = constant(node.input[1])
        self.sites.append(
            Site(
                output,
                kind,
                scheme,
                None,
                values,
                exact,
                stored,
                format_of(scheme),
                channel_axis=channel_axis(self._readers.get(output, ()), codes.ndim),
            )
        )
        self._pairs.append(SitePair(number, [output], None, [node], scale.dtype))
        self._dequantized[output] = output

    def _exact_weight(self, names: Sequence[str], values: Array, output: str) -> Array | None:
        """Return the weight of the reference: of the same name, else of the same node,
        else the most similar one; None if there is none.
        """
        for reference in self._references:
            read = (reference.operand(node, at) for node, at in self._readers.get(output, ()))
            for array in (*map(reference.constant, dict.fromkeys(names)), *read):
                if array is not None and array.shape == values.shape:
                    return array
        return self._most_similar_weight(values)

    def _most_similar_weight(self, values: Array) -> Array | None:
        """Return the weight of the reference with the smallest RMS difference, or None.
        The result is None if none has this shape.
        """
        best, least = None, (
            _ALIKE * float(numpy.sqrt(numpy.mean(values**2))) if values.size else 0.0
        )
        for reference in self._references:
            for array in reference.weights_with_shape(values.shape):
                error = float(numpy.sqrt(numpy.mean((array - values) ** 2)))
                if error < least:
                    best, least = array, error
        return best

    def _find_corrections(self) -> None:
        """Find biases that the quantizer changed, to compensate for the average error."""
        if not self._references or self.producer in _KEEP_BIASES:
            return
        weights = self._weights
        chosen: dict[str, Array] = {}
        for node in self._graph.node:
            for at, name in enumerate(node.input):
                tensor = weights.get(name)
                if (
                    tensor is None
                    or (at < 2 and node.op_type in _WITH_BIAS)
                    or name in chosen
                    or not is_bias_shape(tensor.dims, self.producer)
                ):
                    continue
                exact = self._references[0].operand(node, at)
                if exact is None or not is_float(exact) or exact.shape != tuple(tensor.dims):
                    continue
                array = elements(tensor)
                similar_weights = self._references[0].weights_with_shape(exact.shape)
                if (
                    array.dtype == exact.dtype
                    and is_corrected(array, exact, self.producer)
                    and not is_nearer_to_another(array, exact, similar_weights)
                ):
                    chosen[name] = exact
        for name, exact in chosen.items():
            self._add_correction(name, elements(weights[name]), exact)
        if chosen:
            sort(self._graph)

    def _add_correction(self, name: str, correction: Array, exact: Array) -> None:
        """Add the site of a corrected bias or weight, which differs from the original."""
        output, number = f"{name}{CORRECTED}", len(self.sites)
        for node in self._graph.node:
            node.input[:] = [output if operand == name else operand for operand in node.input]
        self._graph.node.append(onnx.helper.make_node("Identity", [name], [output]))
        values = correction.astype(numpy.float64)
        site = Site(output, "bias", None, None, values, exact, None, "float, corrected")
        self.sites.append(site)
        self._pairs.append(SitePair(number, [output], None, [], correction.dtype))
        self._dequantized[output] = output

    def _add_operators(self) -> None:
        """Add the sites of operators that compute in few bits,
        if the reference has their tensors."""
        if not self._references:
            return
        reference = self._references[0]
        makers = self._makers
        constant = constant_reader(self._graph)
        order = {id(node): at for at, node in enumerate(self._graph.node)}
        known_names = {value.name for value in self._graph.input} | makers.keys()
        for name, twin in reference.makers.items():
            node = makers.get(name)
            if node is None or node.op_type == QUANTIZE:
                continue
            if node.op_type == DEQUANTIZE and not reads_rows(node, makers):
                continue
            region = operator_region(name, makers, reference, order)
            if not any(is_coarse(member.op_type) for member in region):
                continue
            weights = {name: reference.constant(name) for name in twin.input if name}
            if any(
                array is None and operand not in known_names for operand, array in weights.items()
            ):
                continue
            outputs = [output for output in twin.output if output in makers]
            if name != outputs[0] or any(makers[output] is not node for output in outputs):
                continue
            self._add_operator(outputs, twin, region, weights, constant)

    def _add_operator(
        self,
        outputs: list[str],
        twin: NodeProto,
        region: list[NodeProto],
        weights: dict[str, Any],
        constant: Callable[[str], Array | None],
    ) -> None:
        """Add the site of an operator that computes with quantized values."""
        number, name = len(self.sites), outputs[0]
        arrays = {operand: array for operand, array in weights.items() if array is not None}
        array = next((arrays[name] for name in twin.input[:2] if name in arrays), None)
        block = block_weight(region, constant, [arrays.get(name) for name in twin.input])
        if block is None:
            site = Site(name, "operator", None, format="int8, range chosen at run time")
        else:
            scheme, codes, exact, packing = block
            site = Site(
                name,
                "operator",
                scheme,
                None,
                scheme.values(codes),
                exact,
                codes,
                format_of(scheme),
                packing,
                0 if codes.ndim > 2 else 1,
            )
        self.sites.append(site)
        kind = numpy.float32 if array is None else array.dtype
        pair = SitePair(number, outputs, None, [], kind, twin, region, arrays)
        self._pairs.append(pair)
