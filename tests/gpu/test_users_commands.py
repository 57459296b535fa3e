"""The command lines of users, run for real: in the order in which their files come about."""

from __future__ import annotations

import io
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.cli.main import main
from tests.acceptance.users_commands import COMMANDS
from tests.support import classifier_files, dynamic_batch_files, dynamic_image_files, identity_files

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

COARSE = {"C012", "C016", "C018", "C022 fp16", "C022 int8", "C028", "C037", "C038", "C073"}
"""Reduced precision under tolerances that it may or may not meet."""

NEEDS = {
    "C017": "weight_streaming",
    "C034": "weight_streaming",
    "C033": "allocation_strategies",
}
"""Commands for features that not every TensorRT has: without, they say so."""

PACKAGES = {"C021": "matplotlib", "C024": "torch"}
"""Commands that an optional package does a part of."""

FIRST = {
    **dict.fromkeys(
        ("C089", "C090"), ("convert identity.onnx --save-tactics replay.json -o 0.engine",)
    ),
    "C098 check": (
        "convert identity.onnx -o polygraphy_debug.engine",
        "run identity.onnx --onnxrt --save-outputs golden.json",
    ),
    "C061": ("run reduced.onnx --onnxrt --mark-all --save-outputs onnxrt_outputs.json",),
    "C105": (
        "run dynamic_identity.onnx --onnxrt --input-shapes X:[1,2,28,28]"
        " --save-inputs custom_inputs.json",
    ),
    **dict.fromkeys(
        ("C006", "C013"),
        tuple(
            f"run model.onnx --onnxrt --save-inputs {name}"
            for name in ("inputs.json", "real_data.json")
        ),
    ),
}
"""What makes the files that a command reads, where no other one does."""

READS = {
    "C023": {"results/model_fp32.json": "C022 fp32", "results/model_fp16.json": "C022 fp16"},
    "C036": {"fp32_baseline.json": "C035"},
    "C037": {"fp32_baseline.json": "C035"},
    "C058": {"tactics.cache": "C057"},
    "C062": {"reduced.onnx": "C060"},
    "C073": {"engines/a.engine": "C072"},
    "C079": {"identity.engine": "C085"},
    "C083": {"dynamic_identity.engine": "C091"},
    "C095": {"identity_fp16.onnx": "C092", "outputs_fp32.json": "C094"},
    "C096": {"identity_fp16.onnx": "C092"},
    "C098": {"golden.json": "C097"},
    "C098 check": {"golden.json": "C097"},
}
"""The files that a command reads and another one makes, which need not have run in this process."""

CODES = {"C061": (0, 4)}
"""Codes that say what was found out: 4 where no precision meets the tolerance."""

ANSWERS = "f\n" + "p\n" * 60
"""What is typed where it is asked: the model fails, and no part of it does."""

MORE = {
    "C042": "inspect model clean.onnx --convert-to trt --verbose",
    "C066": "inspect model model.onnx --convert-to trt --verbose",
    "C079": "inspect model identity.engine",
    "C081": "inspect model example.py --trt-network-func load_network --show layers attrs weights",
    "C083": "inspect model dynamic_identity.engine",
    "C089": "inspect tactics replay.json",
}
ORDER = [*COMMANDS, *MORE]


def group_of(name: str) -> str:
    """Return the group of files that a command is about."""
    if name in ("C083", "C091"):
        return "dynamic_batch"
    number = int(name[1:4])
    return "classifier" if number < 79 else "identity" if number < 102 else "dynamic_image"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, group in {
        "classifier": classifier_files,
        "identity": identity_files,
        "dynamic_image": dynamic_image_files,
        "dynamic_batch": dynamic_batch_files,
    }.items():
        root = tmp_path_factory.mktemp(name)
        made[name] = root / "examples" / "cli" / "convert"
        made[name].mkdir(parents=True)
        group.build(made[name])
        if group is identity_files:
            calibration = root / "api" / "04_int8_calibration_in_tensorrt"
            calibration.mkdir(parents=True)
            identity_files.build_calibration_example(calibration)
    (made["identity"] / "identity_fp16.onnx").unlink()
    return made


def run(line: str) -> int:
    """Run a command line in this process and return its exit code."""
    try:
        return main(shlex.split(line))
    except SystemExit as end:
        return int(end.code or 0)


def line_of(name: str) -> str:
    """Return the command line of that name."""
    return COMMANDS[name][0] if name in COMMANDS else MORE[name]


@pytest.mark.parametrize("name", ORDER)
def test_a_command_does_what_it_says(
    name: str,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = line_of(name)
    folder = folders[group_of(name)]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["polygraphy", *shlex.split(line)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(ANSWERS))
    for preparation in FIRST.get(name, ()):
        assert run(preparation) == 0
    for file, maker in READS.get(name, {}).items():
        assert Path(file).exists() or run(line_of(maker)) == 0
    code = run(line)
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    feature = NEEDS.get(name)
    if feature is not None and not capabilities().has(feature):
        assert code in (2, 3), said.out[-2000:]
        return
    package = PACKAGES.get(name)
    if package is not None and find_spec(package) is None:
        assert code == 3, said.out[-2000:]
        return
    allowed = (0, 1) if name in COARSE else CODES.get(name, (0,))
    assert code in allowed, f"{line}\n{said.out[-3000:]}\n{said.err[-2000:]}"
