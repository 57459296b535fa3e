"""Changes how a quantized model stores its tensors: other scales and zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.onnx.edit.block_weights import repack_blocks, store_integers
from polygraphy.adapters.onnx.edit.quantized_nodes import (
    DEQUANTIZE,
    QUANTIZE,
    SitePair,
    convert_codes,
    set_axis,
    set_domain,
)
from polygraphy.adapters.onnx.graph.graph import add_weight
from polygraphy.domain.quantization.schemes import Scheme
from polygraphy.domain.quantization.sites import FloatNode, Site

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, NodeProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_INT32 = 2.0**31


class SchemeEditor:
    """Changes the parameters of sites in place.

    Args:
        model: the quantized model.
        sites: the places where it is quantized.
        pairs: the nodes of each site.
        nodes: the nodes that compute.
    """

    def __init__(
        self,
        model: ModelProto,
        sites: Sequence[Site],
        pairs: Sequence[SitePair],
        nodes: Sequence[FloatNode],
    ) -> None:
        """Set the model to change, and its sites."""
        self._model, self._graph = model, model.graph
        self.sites, self._pairs, self._nodes = list(sites), pairs, nodes
        self._names = {weight.name for weight in model.graph.initializer}

    def change(self, schemes: Mapping[int, Scheme | None]) -> None:
        """Store some sites by other schemes, and the biases that depend on them.
        None stands for a bias that follows from its operands.
        """
        for number, scheme in schemes.items():
            self.set_scheme(number, scheme)
        for number, scheme in schemes.items():
            if scheme is not None:
                self.sites[number] = evolve(self.sites[number], scheme=scheme)
        self._update_biases(set(schemes))

    def set_scheme(self, number: int, scheme: Scheme | None) -> None:
        """Quantize a site by another scheme."""
        site, pair = self.sites[number], self._pairs[number]
        if scheme is None:
            return
        if pair.twin is not None:
            repack_blocks(self._model, pair.region, site, scheme)
            store_integers(self._model, pair.region, site, scheme)
            return
        prefix = f"{site.name}//repaired"
        kind = pair.kind
        self._add_constant(f"{prefix}_scale", scheme.scale.astype(kind))
        self._add_constant(f"{prefix}_zero", convert_codes(scheme.zero_point, scheme.dtype))
        for node in self._pair_nodes(site, pair):
            if node is not None:
                codes_or_values = node.input[0]
                node.input[:] = [codes_or_values, f"{prefix}_scale", f"{prefix}_zero"]
                set_axis(node, scheme)
                set_domain(self._model, node, scheme)
        if pair.quantize is None and site.exact is not None:
            codes = scheme.codes(site.exact)
            self._add_constant(f"{prefix}_codes", convert_codes(codes, scheme.dtype))
            for node in pair.dequantize:
                node.input[0] = f"{prefix}_codes"

    def _pair_nodes(self, site: Site, pair: SitePair) -> Sequence[NodeProto | None]:
        """Return the nodes of a pair; a missing one is added."""
        if not site.is_missing or any(node.op_type == DEQUANTIZE for node in pair.dequantize):
            return pair.quantize, *pair.dequantize
        [read] = pair.dequantize
        codes = f"{read.output[0]}//codes"
        store = onnx.helper.make_node(QUANTIZE, [read.input[0]], [codes])
        indexes = {id(node): index for index, node in enumerate(self._graph.node)}
        self._graph.node.insert(indexes[id(read)], store)
        read.op_type, read.input[0] = DEQUANTIZE, codes
        return self._graph.node[indexes[id(read)]], read

    def _update_biases(self, changed: set[int]) -> None:
        """Update the scales of biases whose operands have new scales."""
        by_name = {site.name: number for number, site in enumerate(self.sites)}
        for node in self._nodes:
            numbers = [by_name.get(name) for name in node.reads]
            if len(numbers) < 3 or any(number is None for number in numbers[:3]):
                continue
            x, w, b = (int(number) for number in numbers[:3] if number is not None)
            bias, first, second = self.sites[b], self.sites[x].scheme, self.sites[w].scheme
            if bias.kind != "bias" or not {x, w, b} & changed or first is None or second is None:
                continue
            if bias.scheme is None:
                continue
            scale = (first.scale.reshape(-1) * second.scale.reshape(-1)).astype(numpy.float32)
            exact = bias.exact if bias.exact is not None else bias.values
            assert exact is not None
            scale = self._scale_that_fits(self.sites[w], w, scale, exact, first)
            scheme = Scheme(
                bias.scheme.dtype,
                scale if scale.size > 1 else scale.reshape(()),
                numpy.zeros(scale.shape if scale.size > 1 else ()),
                0,
            )
            self._set_bias(b, scheme, exact)

    def _scale_that_fits(
        self, weight: Site, number: int, scale: Array, exact: Array, reads: Scheme
    ) -> Array:
        """Return a scale for a bias that fits int32; its weight's is enlarged if necessary."""
        least = numpy.abs(exact) / (_INT32 * 0.999)
        least = least if scale.size > 1 else least.max(keepdims=True)
        if weight.scheme is None or weight.exact is None or numpy.all(least <= scale):
            return scale
        wider: Array = numpy.maximum(scale, least).astype(numpy.float32)
        shape = weight.scheme.scale.shape
        steps = (wider.astype(numpy.float64) / reads.scale.reshape(-1)).reshape(shape)
        self.set_scheme(number, evolve(weight.scheme, scale=steps))
        return wider

    def _set_bias(self, number: int, scheme: Scheme, exact: Array) -> None:
        """Quantize a bias by another scheme."""
        site, pair = self.sites[number], self._pairs[number]
        prefix = f"{site.name}//repaired"
        self._add_constant(f"{prefix}_scale", scheme.scale.astype(numpy.float32))
        self._add_constant(f"{prefix}_codes", convert_codes(scheme.codes(exact), scheme.dtype))
        for node in pair.dequantize:
            node.input[:] = [f"{prefix}_codes", f"{prefix}_scale"]
            set_axis(node, scheme)

    def _add_constant(self, name: str, array: Array) -> None:
        """Add a weight to the model, in place of one of the same name."""
        if name in self._names:
            numbers = (n for n, w in enumerate(self._graph.initializer) if w.name == name)
            del self._graph.initializer[next(numbers)]
        self._names.add(name)
        add_weight(self._model, onnx.numpy_helper.from_array(array), name)
