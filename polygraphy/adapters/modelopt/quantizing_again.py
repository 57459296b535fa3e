"""Quantizes a model again as ModelOpt does, with the ranges that it has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polygraphy import mod
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
numpy = mod.lazy_import("numpy")
modelopt = mod.lazy_import("modelopt", pkg_name="nvidia-modelopt")
quantization = mod.lazy_import("modelopt.onnx.quantization", pkg_name="nvidia-modelopt")


def quantize_again(request: Requantization) -> list[ModelProto] | None:
    """Return a model quantized by ModelOpt for each set of excluded nodes, or None.
    The result is None if it is not installed.
    """
    if not modelopt.is_installed():
        return None
    with TemporaryDirectory() as folder:
        reference = save_in_folder(request.reference, folder, "reference.onnx")
        model = save_in_folder(request.model, folder, "model.onnx")
        process = warm_process("ModelOpt", "modelopt")
        with process.limit_calls(request.seconds, is_silent=True):
            paths = process.call(
                _quantize_all,
                folder,
                reference,
                model,
                _options(request),
                [dict(feed) for feed in request.feeds],
                [list(names) for names in request.excluded],
            )
        return [onnx.load(path) for path in paths]


def _options(request: Requantization) -> dict[str, Any]:
    """Return the options with which a model was quantized, as far as the model shows them."""
    schemes = [site.scheme for site in request.sites if site.scheme is not None]
    kinds = {scheme.dtype for scheme in schemes}
    half = onnx.TensorProto.FLOAT16
    is_half = any(weight.data_type == half for weight in request.model.graph.initializer)
    mode = "fp8" if any("float8" in kind for kind in kinds) else "int8"
    activations = activation_scales(request.model)
    if kinds and not activations:
        mode = "int4"
    weights = {weight.name for weight in request.model.graph.initializer}
    reads_codes = any(
        node.op_type == "DequantizeLinear" and node.input[0] in weights
        for node in request.model.graph.node
    )
    return {
        "quantize_mode": mode,
        "high_precision_dtype": "fp16" if is_half else "fp32",
        "dq_only": reads_codes and mode != "int4",
        "use_zero_point": any(
            zero is not None and bool(zero.astype(numpy.float32).any())
            for _, zero in activations.values()
        ),
    }


def _quantize_all(
    folder: str,
    reference_path: str,
    model_path: str,
    options: Mapping[str, Any],
    feeds: Sequence[Mapping[str, Any]],
    excluded: Sequence[Sequence[str]],
) -> list[str]:
    """Return the paths of models quantized without some nodes."""
    import logging

    logging.disable(logging.WARNING)
    reference, model = onnx.load(reference_path), onnx.load(model_path)
    data = {
        name: numpy.concatenate([numpy.asarray(feed[name]) for feed in feeds]) for name in feeds[0]
    }
    paths: list[str] = []
    for names in excluded:
        path = str(Path(folder) / f"made{len(paths)}.onnx")
        quantization.quantize(
            reference_path,
            calibration_data=data,
            output_path=path,
            nodes_to_exclude=[f"^{re.escape(name)}$" for name in names] or None,
            calibration_eps=["cpu"],
            log_level="ERROR",
            **options,
        )
        quantized = onnx.load(path)
        copy_ranges(quantized, model, reference)
        paths.append(save_in_folder(quantized, folder, f"again{len(paths)}.onnx"))
    return paths
