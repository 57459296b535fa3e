"""Quantizes a model with a released quantizer, in the interpreter that has it.

python quantizers.py KIND float.onnx calibration.npz quantized.onnx ['["node", ...]']
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

Feeds = Sequence[dict[str, Any]]


class Reader:
    """Data for the calibration of ONNX Runtime."""

    def __init__(self, feeds: Feeds) -> None:
        """Start at the first input set."""
        self.feeds = iter(list(feeds))

    def get_next(self) -> dict[str, Any] | None:
        """Return the next input set, or None after the last."""
        return next(self.feeds, None)


def _static(model: Any, feeds: Feeds, out: str, without: Sequence[str], **options: Any) -> None:
    """Write a model quantized by ONNX Runtime with calibration data."""
    from onnxruntime.quantization import quantize_static

    quantize_static(model, out, Reader(feeds), nodes_to_exclude=list(without), **options)


def _ort(kind: str, model: Any, feeds: Feeds, out: str, without: Sequence[str]) -> None:
    """Write a model quantized by ONNX Runtime, by the kind of quantization."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic

    types = {
        "u8": QuantType.QUInt8,
        "s8": QuantType.QInt8,
        "u16": QuantType.QUInt16,
        "s16": QuantType.QInt16,
        "f8": QuantType.QFLOAT8E4M3FN,
    }
    words = kind.split("-")
    if words[1] == "dynamic":
        quantize_dynamic(
            model,
            out,
            nodes_to_exclude=list(without),
            per_channel="channel" in words,
            weight_type=types[words[2]],
        )
        return
    extra = {"ActivationSymmetric": True} if "symmetric" in words else {}
    if words[2] == "f8":
        from onnxruntime.quantization import CalibrationMethod

        _static(
            model,
            feeds,
            out,
            without,
            quant_format=QuantFormat.QDQ,
            activation_type=types["f8"],
            weight_type=types["f8"],
            calibrate_method=CalibrationMethod.Distribution,
            op_types_to_quantize=["Conv", "MatMul", "Gemm"],
            extra_options={"scenario": "same"},
        )
        return
    _static(
        model,
        feeds,
        out,
        without,
        quant_format=QuantFormat.QOperator if words[1] == "qoperator" else QuantFormat.QDQ,
        activation_type=types[words[2]],
        weight_type=types[words[3]],
        per_channel="channel" in words,
        extra_options=extra,
    )


def _blocks(kind: str, model: Any, feeds: Feeds, out: str, without: Sequence[str]) -> None:
    """Write a model whose weights are quantized in blocks by ONNX Runtime."""
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    words = kind.split("-")
    bits, symmetric = int(words[1]), "asymmetric" not in words
    config = None
    if "hqq" in words:
        config = nbits.HQQWeightOnlyQuantConfig(block_size=32, bits=bits)
    quantizer = nbits.MatMulNBitsQuantizer(
        model,
        bits=bits,
        block_size=32,
        is_symmetric=symmetric,
        nodes_to_exclude=list(without),
        algo_config=config,
        **({"accuracy_level": 4} if "level4" in words else {}),
    )
    quantizer.process()
    quantizer.model.save_model_to_file(out)


def _nncf(
    kind: str, model: Any, feeds: Feeds, out: str, without: Sequence[str], *, is_full: bool
) -> None:
    """Write a model quantized by NNCF."""
    import nncf

    scope = {"ignored_scope": nncf.IgnoredScope(names=list(without))} if without else {}
    if is_full:
        scope["advanced_parameters"] = nncf.AdvancedQuantizationParameters(
            overflow_fix=nncf.OverflowFix.DISABLE
        )
    if kind == "nncf-int4":
        quantized = nncf.compress_weights(
            model,
            mode=nncf.CompressWeightsMode.INT4_SYM,
            group_size=16,
            ratio=1.0,
            all_layers=True,
            **scope,
        )
    else:
        preset = (
            nncf.QuantizationPreset.MIXED
            if "mixed" in kind
            else nncf.QuantizationPreset.PERFORMANCE
        )
        quantized = nncf.quantize(
            model, nncf.Dataset(list(feeds)), preset=preset, subset_size=len(feeds), **scope
        )
    onnx.save(quantized, out)


def _modelopt(kind: str, path: str, feeds: Feeds, out: str, without: Sequence[str]) -> None:
    """Write a model quantized by ModelOpt."""
    from modelopt.onnx.quantization import quantize

    data = {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
    quantize(
        path,
        quantize_mode=kind.split("-")[1],
        calibration_data=data,
        output_path=out,
        nodes_to_exclude=list(without) or None,
        calibration_eps=["cpu"],
        high_precision_dtype="fp32",
        log_level="ERROR",
    )


def quantize(
    kind: str,
    path: str,
    feeds: Feeds,
    out: str,
    without: Sequence[str] = (),
    *,
    is_full: bool = False,
) -> None:
    """Write a quantized model, without some nodes.

    NNCF does not halve a range if `is_full`.
    """
    model = onnx.load(path)
    if kind.startswith("ort-"):
        _ort(kind, model, feeds, out, without)
    elif kind.startswith("nbits-"):
        _blocks(kind, model, feeds, out, without)
    elif kind.startswith("nncf"):
        _nncf(kind, model, feeds, out, without, is_full=is_full)
    else:
        _modelopt(kind, path, feeds, out, without)


def save_feeds(feeds: Feeds, path: str) -> None:
    """Save data for another interpreter."""
    np.savez(
        path,
        **{f"{at}/{name}": array for at, feed in enumerate(feeds) for name, array in feed.items()},
    )


def load_feeds(path: str) -> list[dict[str, Any]]:
    """Return the data saved in a file."""
    feeds: dict[int, dict[str, Any]] = {}
    with np.load(path) as archive:
        for key in archive.files:
            at, _, name = key.partition("/")
            feeds.setdefault(int(at), {})[name] = archive[key]
    return [feeds[at] for at in sorted(feeds)]


def jobs(path: str) -> Iterator[dict[str, Any]]:
    """Yield the jobs of a file, one for each line."""
    with Path(path).open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file)


def main() -> None:
    """Run all jobs of a file, and print a line for each that fails."""
    for job in jobs(sys.argv[1]):
        try:
            quantize(
                job["kind"],
                job["model"],
                load_feeds(job["data"]),
                job["out"],
                job.get("without", ()),
                is_full=job.get("is_full", False),
            )
        except Exception as error:  # noqa: PERF203
            print(f"{job['kind']} {job['model']}: {type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    main()
