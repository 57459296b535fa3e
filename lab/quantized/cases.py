"""Cases: hosts quantized by released quantizers, healthy and with a wrong parameter."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx

from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
from polygraphy.domain.quantization.metrics import RmsRatio

from . import quantizers
from .hosts import HOSTS, Host, package_model
from .planting import KINDS, Fault, changed_data, clip_biases, shrink_channels
from .truth import outputs

STATIC = (
    "ort-qdq-u8-s8",
    "ort-qdq-u8-s8-channel",
    "ort-qdq-s8-s8-channel-symmetric",
    "ort-qdq-u16-s8",
    "ort-qoperator-u8-s8",
)
BLOCKS = ("nbits-4", "nbits-4-asymmetric", "nbits-8", "nbits-2", "nbits-4-level4", "nbits-4-hqq")
OTHERS = ("nncf", "nncf-mixed", "modelopt-int8")
QUANTIZED: Mapping[str, Sequence[str]] = {
    "cnn": (*STATIC, *OTHERS, "ort-dynamic-u8", "ort-qdq-f8-f8", "modelopt-fp8"),
    "depthwise": (*STATIC, *OTHERS),
    "mlp": (
        *STATIC,
        *OTHERS,
        *BLOCKS,
        "ort-dynamic-s8",
        "ort-dynamic-s8-channel",
        "nncf-int4",
        "ort-qdq-f8-f8",
    ),
    "encoder": (
        "ort-qdq-u8-s8",
        "ort-qdq-s8-s8-channel-symmetric",
        "nncf",
        "modelopt-int8",
        "nbits-4",
        "nbits-4-asymmetric",
        "ort-dynamic-s8",
    ),
    "detector": ("ort-qdq-u8-s8", "ort-qoperator-u8-s8", "nncf"),
    "recurrent": ("ort-dynamic-s8",),
}
"""Which quantizers take which host."""


class Case(NamedTuple):
    """A quantized model, and what is wrong with it."""

    name: str
    host: Host
    kind: str
    model: onnx.ModelProto
    healthy: float
    value: float
    fault: Fault | None = None
    fault_kind: str = ""


def interpreter_of(kind: str, interpreters: Mapping[str, str]) -> str | None:
    """Return the path of the interpreter that has a quantizer; None if none was passed."""
    if kind.startswith(("nncf", "modelopt")):
        return interpreters.get(kind.partition("-")[0])
    if kind.endswith("hqq"):
        return interpreters.get("modelopt")
    return sys.executable


def quantize_all(
    folder: Path, jobs: Sequence[tuple[Host, str, str, bool]], interpreters: Mapping[str, str]
) -> None:
    """Quantize models in other interpreters.

    A job is a host, the name of its file, the quantizer, and whether the calibration data differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Jobs by interpreter and quantizer: a separate process for each, because ModelOpt changes ONNX
    # Runtime's quantizer.
    lines: dict[tuple[str, str], list[str]] = {}
    for host, name, kind, is_unlike in jobs:
        interpreter = interpreter_of(kind, interpreters)
        out = folder / f"{name}-{kind}{'-unlike' if is_unlike else ''}.onnx"
        if interpreter is None or out.exists():
            continue
        model, data = (
            folder / f"{name}.onnx",
            folder / f"{name}{'-unlike' if is_unlike else ''}.npz",
        )
        onnx.save(host.model, str(model))
        rng = np.random.default_rng(len(name))
        quantizers.save_feeds(changed_data(host, rng) if is_unlike else host.calibration, str(data))
        job = {"kind": kind, "model": str(model), "data": str(data), "out": str(out)}
        tool = kind.partition("-")[0]
        lines.setdefault((interpreter, tool), []).append(json.dumps(job))
    for number, ((interpreter, _), texts) in enumerate(lines.items()):
        path = folder / f"jobs-{number}.txt"
        path.write_text("\n".join(texts))
        script = Path(quantizers.__file__)
        ended = subprocess.run(
            [interpreter, str(script), str(path)],
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
        _print_failures(ended.stdout)


def _print_failures(text: str) -> None:
    """Print the models that were not quantized; a missing package is one line."""
    missing: Counter[str] = Counter()
    for line in text.splitlines():
        before, separator, package = line.partition("ModuleNotFoundError: No module named ")
        if separator:
            missing[package] += 1
        elif "Error" in line:
            print("not quantized:", before)
    for package, count in missing.items():
        print(f"not quantized, because {package} is not installed: {count} models")


def value_of(host: Host, model: onnx.ModelProto) -> float:
    """Return the rms ratio of a quantized model."""
    return RmsRatio()(outputs(model, host.samples), outputs(host.model, host.samples))


def healthy_cases(
    folder: Path, seeds: Sequence[int], interpreters: Mapping[str, str], only: str = ""
) -> Iterator[Case]:
    """Yield a case for each model as a quantizer writes it."""
    jobs = [
        (HOSTS[name](seed), f"{name}{seed}", kind, False)
        for name, kinds in QUANTIZED.items()
        for kind in kinds
        for seed in seeds
        if only in f"{name}{seed}-{kind}"
    ]
    quantize_all(folder, jobs, interpreters)
    for host, name, kind, _ in jobs:
        path = folder / f"{name}-{kind}.onnx"
        if not path.exists():
            continue
        model = onnx.load(str(path))
        try:
            value = value_of(host, model)
        except Exception as error:
            print(f"{name}-{kind} does not run: {str(error)[:120]}")
            continue
        if value:
            # A loss of 0 means that the quantizer skipped the model, for example because it is too
            # small.
            yield Case(f"{name}-{kind}", host, kind, model, value, value)


def planted_cases(
    folder: Path, seeds: Sequence[int], interpreters: Mapping[str, str], only: str = ""
) -> Iterator[Case]:
    """Yield cases with a wrong parameter that at least doubles the loss."""
    for case in healthy_cases(folder, seeds, interpreters):
        if "f8-f8" in case.kind or "fp8" in case.kind:
            continue
        for at, (kind, plant) in enumerate(KINDS.items()):
            name = f"{case.name}-{kind}"
            if only not in name:
                continue
            rng = np.random.default_rng([seeds[0], at, sum(map(ord, case.name))])
            for _ in range(4):
                model = onnx.ModelProto()
                model.CopyFrom(case.model)
                reference = onnx.ModelProto()
                reference.CopyFrom(case.host.model)
                host = case.host._replace(model=reference)
                fault = plant(host, model, rng)
                if fault is None:
                    break
                value = value_of(host, model)
                if value > max(2 * case.healthy, 0.03) and is_effect_of(host, model, fault, value):
                    yield case._replace(
                        name=name, host=host, model=model, value=value, fault=fault, fault_kind=kind
                    )
                    break


def is_effect_of(host: Host, model: onnx.ModelProto, fault: Fault, value: float) -> bool:
    """Return whether the tensor of a fault causes most of the loss.

    A different tensor that the fault also changes, such as a range that no longer fits, would be
    the right answer as well.
    """
    opened = open_quantized(model, [host.model])
    off = [number for number, site in enumerate(opened.sites) if site.name in fault.tensors]
    return not off or value_of(host, opened.float_at_sites(off)) < 0.7 * value


def unlike_cases(
    folder: Path, seeds: Sequence[int], interpreters: Mapping[str, str], only: str = ""
) -> Iterator[Case]:
    """Yield cases whose models were calibrated with different data."""
    names = ("cnn", "mlp", "depthwise")
    for seed in seeds:
        for name in names:
            host = HOSTS[name](seed)
            for kind in ("ort-qdq-u8-s8", "ort-qdq-s8-s8-channel-symmetric", "nncf"):
                stem = f"{name}{seed}"
                if only not in f"{stem}-{kind}-unlike":
                    continue
                quantize_all(
                    folder, [(host, stem, kind, False), (host, stem, kind, True)], interpreters
                )
                path = folder / f"{stem}-{kind}-unlike.onnx"
                if not path.exists():
                    continue
                model = onnx.load(str(path))
                healthy = value_of(host, onnx.load(str(folder / f"{stem}-{kind}.onnx")))
                if value_of(host, model) <= max(2 * healthy, 0.03):
                    continue  # A fault must at least double the loss.
                yield Case(
                    f"{stem}-{kind}-unlike",
                    host,
                    kind,
                    model,
                    healthy,
                    value_of(host, model),
                    Fault((), ("calibration data",)),
                    "unlike",
                )


def clipped_cases(
    folder: Path, seeds: Sequence[int], interpreters: Mapping[str, str], only: str = ""
) -> Iterator[Case]:
    """Yield cases with tiny weights, whose biases do not fit into int32.

    Quantizers enlarge the scales of such weights, which is undone here.
    """
    for seed in seeds:
        for name in ("cnn", "depthwise"):
            rng = np.random.default_rng([seed, len(name)])
            host = HOSTS[name](seed)
            layer = shrink_channels(host, rng)
            for kind in ("ort-qdq-u8-s8-channel", "ort-qdq-s8-s8-channel-symmetric"):
                stem = f"{name}{seed}shrunk"
                if only not in f"{stem}-{kind}-clipped_bias":
                    continue
                quantize_all(folder, [(host, stem, kind, False)], interpreters)
                path = folder / f"{stem}-{kind}.onnx"
                if not path.exists():
                    continue
                model = onnx.load(str(path))
                healthy = value_of(host, model)
                fault = clip_biases(host, model, layer)
                value = value_of(host, model)
                if value > max(2 * healthy, 0.03):
                    case = f"{stem}-{kind}-clipped_bias"
                    yield Case(case, host, kind, model, healthy, value, fault, "clipped_bias")


def shipped_case(
    path: Path, kind: str, folder: Path, interpreters: Mapping[str, str], sizes: dict[str, int]
) -> Case | None:
    """Return the case of a model of a package as a quantizer writes it, or None."""
    host = package_model(path, 1, sizes)
    quantize_all(folder, [(host, path.stem, kind, False)], interpreters)
    path_of_model = folder / f"{path.stem}-{kind}.onnx"
    if not path_of_model.exists():
        return None
    model = onnx.load(str(path_of_model))
    value = value_of(host, model)
    return Case(f"{path.stem}-{kind}", host, kind, model, value, value)
