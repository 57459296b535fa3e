"""Quantizes a model again as NNCF does, with the ranges that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.adapters.onnx_common.quantized_ranges import (
    activation_scales,
    copy_ranges,
    save_in_folder,
)
from polygraphy.domain.quantization.requantization import Requantization
from polygraphy.ports.running import warm_process

if TYPE_CHECKING:
    from onnx import ModelProto

onnx = mod.lazy_import("onnx")
nncf = mod.lazy_import("nncf")

_PRESETS = ("PERFORMANCE", "MIXED")
"""Which activations have a zero point in the middle."""
_TRANSFORMERS = frozenset({"Attention", "Gelu", "LayerNormalization", "Softmax"})
"""Operators of models for which the type of the model is usually given."""


def quantize_again(request: Requantization) -> list[ModelProto] | None:
    """Return a model quantized by NNCF for each set of excluded nodes, or None.
    The result is None if it is not installed, or does not quantize the same tensors.
    """
    if not nncf.is_installed():
        return None
    with TemporaryDirectory() as folder:
        reference = save_in_folder(request.reference, folder, "reference.onnx")
        model = save_in_folder(request.model, folder, "model.onnx")
        process = warm_process("NNCF", "nncf")
        with process.limit_calls(request.seconds, is_silent=True):
            paths = process.call(
                _quantize_all,
                folder,
                reference,
                model,
                _weight_options(request) if request.producer == "nncf-weights" else None,
                [dict(feed) for feed in request.feeds],
                [list(names) for names in request.excluded],
                [*request.keeps_full_range],
            )
        return [onnx.load(path) for path in paths] or None


def _weight_options(request: Requantization) -> dict[str, Any]:
    """Return the options with which NNCF compresses weights as in a model."""
    schemes = [site.scheme for site in request.sites if site.kind in ("weight", "operator")]
    few = [scheme for scheme in schemes if scheme is not None and "8" not in scheme.dtype]
    first = next((scheme for scheme in (*few, *schemes) if scheme is not None), None)
    if first is None:
        return {"mode": "INT8_ASYM"}
    is_symmetric = bool((first.zero_point == first.stored_type.middle).all())
    bits = 4 if few else 8
    options: dict[str, Any] = {"mode": f"INT{bits}_{'SYM' if is_symmetric else 'ASYM'}"}
    if few:
        is_whole = len(few) == sum(scheme is not None for scheme in schemes)
        options |= {"group_size": first.block or -1, "ratio": 1.0, "all_layers": is_whole}
    return options


def _quantize_all(
    folder: str,
    reference_path: str,
    model_path: str,
    weight_options: Mapping[str, Any] | None,
    feeds: Sequence[Mapping[str, Any]],
    excluded: Sequence[Sequence[str]],
    keeps_full_range: Sequence[bool],
) -> list[str]:
    """Return the paths of models quantized without some nodes;
    none if no options are known with which NNCF quantizes the tensors that the model quantizes.
    """
    import logging

    logging.disable(logging.WARNING)
    reference, model = onnx.load(reference_path), onnx.load(model_path)
    options = weight_options or _matching_options(reference, model, feeds)
    paths: list[str] = []
    for names, is_full in zip(excluded, keeps_full_range) if options is not None else ():
        assert options is not None
        if weight_options is not None:
            mode = getattr(nncf.CompressWeightsMode, options["mode"])
            quantized = nncf.compress_weights(
                onnx.load(reference_path), **{**options, "mode": mode}, **_exclusion_option(names)
            )
        else:
            quantized = _quantize(onnx.load(reference_path), feeds, options, names, is_full)
            copy_ranges(quantized, model, reference)
        paths.append(save_in_folder(quantized, folder, f"made{len(paths)}.onnx"))
    return paths


def _quantize(
    reference: ModelProto,
    feeds: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    without: Sequence[str],
    is_full_range: bool,
) -> ModelProto:
    """Return a model quantized without some nodes."""
    advanced = nncf.AdvancedQuantizationParameters()
    if is_full_range:
        advanced = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.DISABLE)
    quantized: ModelProto = nncf.quantize(
        reference,
        nncf.Dataset(list(feeds)),
        subset_size=len(feeds),
        preset=getattr(nncf.QuantizationPreset, options["preset"]),
        model_type=options["type"] and getattr(nncf.ModelType, options["type"]),
        advanced_parameters=advanced,
        **_exclusion_option(without),
    )
    return quantized


def _exclusion_option(without: Sequence[str]) -> dict[str, Any]:
    """Return the option that excludes nodes; none if there are no such nodes."""
    return {"ignored_scope": nncf.IgnoredScope(names=list(without))} if without else {}


def _matching_options(
    reference: ModelProto, model: ModelProto, feeds: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the options with which NNCF quantizes the same tensors as a model, most of them in the
    same types; None if there are none. One input is enough for this test."""
    own_types = _activation_types(model)
    types: list[str | None] = [None, "TRANSFORMER"]
    if any(node.op_type in _TRANSFORMERS for node in reference.graph.node):
        types.reverse()
    best, fewest = None, len(own_types) + 1
    for kind in types:
        for preset in _PRESETS:
            options = {"preset": preset, "type": kind}
            try:
                new_types = _activation_types(
                    _quantize(copy_of(reference), feeds[:1], options, [], False)
                )
            except (AttributeError, RuntimeError, ValueError):
                break  # NNCF 3.4 fails for some models of this type.
            if new_types.keys() != own_types.keys():
                # No other preset to try, because the preset does not affect which tensors are
                # quantized.
                break
            different = sum(own_types[name] != new_types[name] for name in own_types)
            if different < fewest:
                best, fewest = options, different
            if not different:
                return options
        if best is not None:
            break
    return best


def _activation_types(model: ModelProto) -> dict[str, tuple[str, bool]]:
    """Return, for each activation that a model quantizes, its type and whether it is symmetric."""
    return {
        name: ("" if zero is None else zero.dtype.name, zero is not None and bool(zero.any()))
        for name, (_, zero) in activation_scales(model).items()
    }
