"""The lines that keep nodes in floating point, in the syntax of the quantizer."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from attrs import frozen

from polygraphy.domain.quantization.sites import FloatNode, Site

_ONNX_RUNTIME = ("dynamic", "nbits")
"""The quantizers of ONNX Runtime whose models may have been through another one of them."""
_HALF = 64
"""The largest magnitude of codes in half of the int8 range."""
_FULL_RANGE = (
    ", advanced_parameters=nncf.AdvancedQuantizationParameters("
    "overflow_fix=nncf.OverflowFix.DISABLE)"
)


@frozen
class Tool:
    """A quantizer, and its way to exclude nodes.

    Attributes:
        line: returns the line to paste, from the names of nodes.
        package: the package that quantizes again, which the port is bound for; empty if none does.
    """

    line: Callable[[Sequence[str]], str]
    package: str = ""


def excluded_names(nodes: Sequence[FloatNode], kept_names: Sequence[str]) -> list[str]:
    """Return the names by which the quantizer knows nodes.
    A node without one gets the name of its first output.

    Args:
        nodes: the nodes of a model.
        kept_names: the names of those that stay in floating point.
    """
    names = {node.name: node.quantizer_name or node.name for node in nodes}
    return [names.get(name, name) for name in kept_names]


def nodes_by_quantizer(
    producer: str, nodes: Sequence[FloatNode], sites: Sequence[Site], kept_names: Sequence[str]
) -> dict[str, list[str]]:
    """Return, by quantizer, the nodes that it has to exclude: a model may have been through several
    quantizers of ONNX Runtime.

    Args:
        producer: the quantizer that made the model; empty if unknown.
        nodes: the nodes of the model.
        sites: the quantized sites.
        kept_names: the names of the nodes that stay in floating point.
    """
    has_pairs = any(site.kind == "activation" and site.scheme is not None for site in sites)
    default = "static" if has_pairs else producer
    products = {site.name: _quantizer_of(site) for site in sites if site.kind == "operator"}
    blocks = {site.name for site in sites if site.kind == "weight" and _is_in_blocks(site)}
    if producer not in _ONNX_RUNTIME or not (has_pairs or {*products.values()} - {producer}):
        return {producer: [*kept_names]}
    chosen = {node.name: node for node in nodes if node.name in kept_names}
    by_quantizer: dict[str, list[str]] = {}
    for name in kept_names:
        node = chosen.get(name)
        known_products = [products[name] for name in node.makes if name in products] if node else []
        is_packed = node is not None and not blocks.isdisjoint(node.reads)
        quantizer = known_products[0] if known_products else "nbits" if is_packed else default
        by_quantizer.setdefault(quantizer, []).append(name)
    return by_quantizer


def _quantizer_of(operator: Site) -> str:
    """Return which quantizer of ONNX Runtime writes an operator that reads few bits."""
    return "nbits" if _is_in_blocks(operator) else "dynamic"


def _is_in_blocks(site: Site) -> bool:
    """Return whether a weight has scales for blocks of elements."""
    return site.scheme is not None and bool(site.scheme.block)


def has_unnamed(nodes: Sequence[FloatNode], kept_names: Collection[str]) -> bool:
    """Return whether a node that stays in floating point has no name."""
    return any(node.name in kept_names and node.quantizer_name == "" for node in nodes)


def exclusion(producer: str, nodes: Sequence[str], *, keeps_full_range: bool = False) -> str:
    """Return the line that excludes nodes from quantization, in the syntax of the quantizer.

    Args:
        producer: the quantizer that made the model; empty if unknown.
        nodes: the nodes that stay in floating point.
        keeps_full_range: whether the quantizer must not halve the range of weights.
    """
    line = TOOLS[producer].line(list(nodes))
    return f"{line[:-1]}{_FULL_RANGE})" if keeps_full_range else line


def halves_another_range(
    producer: str, nodes: Sequence[FloatNode], sites: Sequence[Site], without: Collection[str]
) -> bool:
    """Return whether excluded nodes have weights in half of the int8 range.
    NNCF then halves the range of the next quantized weights instead."""
    if producer != "nncf":
        return False
    half = {
        site.name
        for site in sites
        if site.codes is not None
        and site.scheme is not None
        and site.scheme.dtype == "int8"
        and 0 < np.abs(site.codes).max(initial=0) <= _HALF
    }
    return any(node.name in without and not half.isdisjoint(node.reads) for node in nodes)


def _call_of(function: str) -> Callable[[Sequence[str]], str]:
    """Return a function that returns the line for a function that accepts `nodes_to_exclude`."""
    return lambda nodes: f"{function}(..., nodes_to_exclude={nodes!r})"


def _nncf(function: str) -> Callable[[Sequence[str]], str]:
    """Return a function that returns the line for a function of NNCF,
    which raises an error for unknown names."""
    return lambda nodes: f"{function}(..., ignored_scope=nncf.IgnoredScope(names={nodes!r}))"


def _modelopt(nodes: Sequence[str]) -> str:
    """Return the line for ModelOpt, which takes patterns that match the start of a name."""
    patterns = [f"^{re.escape(name)}$" for name in nodes]
    return f"modelopt.onnx.quantization.quantize(..., nodes_to_exclude={patterns!r})"


def _olive(nodes: Sequence[str]) -> str:
    """Return the entry for the configuration of Olive, which is JSON."""
    return f'"nodes_to_exclude": {json.dumps(nodes)} in the configuration of the pass'


def _genai(nodes: Sequence[str]) -> str:
    """Return the options of the builder, by both names: release 0.18 silently ignores the former
    name, and earlier ones the new name."""
    # A command line separates names by commas, so such names need Python code.
    if any("," in name or not name.isprintable() for name in nodes):
        return f"create_model(..., nodes_to_exclude={nodes!r})"
    names = ",".join(nodes)
    now, before = (shlex.quote(f"{prefix}nodes_to_exclude={names}") for prefix in ("", "int4_"))
    return f"--extra_options {now} (of builders before 0.18: {before})"


def _generic_exclusion(nodes: Sequence[str]) -> str:
    """Return the exclusion in the form that most quantizers accept."""
    return f"nodes_to_exclude={nodes!r}"


TOOLS: Mapping[str, Tool] = {
    "static": Tool(_call_of("quantize_static"), "onnxruntime"),
    "dynamic": Tool(_call_of("quantize_dynamic"), "onnxruntime"),
    "nbits": Tool(_call_of("MatMulNBitsQuantizer"), "onnxruntime"),
    "olive": Tool(_olive, "onnxruntime"),
    "genai": Tool(_genai, "onnxruntime"),
    "nncf": Tool(_nncf("nncf.quantize"), "nncf"),
    "nncf-weights": Tool(_nncf("nncf.compress_weights"), "nncf"),
    "modelopt": Tool(_modelopt, "modelopt"),
    "neural-compressor": Tool(_call_of("StaticQuantConfig")),
    "quark": Tool(lambda nodes: f"QConfig(..., exclude={nodes!r})"),
    "": Tool(_generic_exclusion),
}
"""Quantizers by the name of `QuantizedModel.producer`. Olive and the builder of genai call those of
ONNX Runtime.
"""
