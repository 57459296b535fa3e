"""Models that packages ship, which `make models` downloads, with data that fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from .planted_cases import Models

_OCR = "rapidocr_onnxruntime/models/ch"
FILES = {
    "magika": ("magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}, (0, 255)),
    "rapidocr rec": (f"{_OCR}_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 96)}, (-1, 1)),
    "rapidocr cls": (f"{_OCR}_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 96)}, (-1, 1)),
    "silero": (
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        {"input": (3, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
        (-1, 1),
    ),
}


def installed_models(folder: Path) -> Models:
    """Return the models of packages that are installed."""
    models: Models = {}
    for name, (file, shapes, (low, high)) in FILES.items():
        if not (folder / file).exists():
            continue
        model = onnx.load(folder / file)
        rng = np.random.default_rng(0)
        data = {}
        for value in model.graph.input:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            data[value.name] = rng.uniform(low, high, shapes[value.name]).astype(dtype)
        spelled = [f"{key}:{'x'.join(map(str, shape))}" for key, shape in shapes.items()]
        options = ("--input-shapes", *spelled, "--val-range", f"[{low},{high}]")
        models[name] = (model, data, options)
    return models
