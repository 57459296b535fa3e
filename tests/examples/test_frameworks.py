"""The example of one model in several frameworks."""

from __future__ import annotations

import importlib
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import checker, numpy_helper

from polygraphy import mod
from polygraphy.cli.main import main
from polygraphy.logger import G_LOGGER

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "frameworks"


@pytest.fixture(scope="module")
def torch_model() -> Iterator[ModuleType]:
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("torch_model")
    sys.modules.pop("torch_model", None)


def test_the_files_are_valid_and_small() -> None:
    checker.check_model(onnx.load(FOLDER / "digits.onnx"), full_check=True)
    sizes = [(FOLDER / name).stat().st_size for name in ("digits.onnx", "digits.keras")]
    assert sum(sizes) < 150_000


def test_every_backend_agrees_with_every_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["pytest"]
    )  # A program refuses arguments, those of pytest too.
    # In this process, into which frameworks may be loaded already.
    with G_LOGGER.preserve(), pytest.raises(SystemExit) as left:
        runpy.run_path(str(FOLDER / "compare.py"), run_name="__main__")
    reported = capsys.readouterr()
    assert not left.value.code, reported.out + reported.err
    installed = [name for name in ("onnxruntime", "tensorflow", "torch") if mod.has_mod(name)]
    backends = 2 + len(installed)
    tables = [line for line in reported.out.splitlines() if " vs. " in line and "max abs" in line]
    assert len(tables) == backends * (backends - 1) // 2


def test_the_command_lines_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tf2onnx")
    for name in ("digits.keras", "digits.onnx", "torch_model.py"):
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    readme = (FOLDER / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line for line in readme.splitlines() if line.startswith("polygraphy run ")]
    assert len(commands) == 2
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with G_LOGGER.preserve(), pytest.raises(SystemExit) as left:
            sys.exit(main())
        reported = capsys.readouterr()
        assert not left.value.code, reported.out + reported.err
        assert "\nPASSED  " in reported.out


def test_the_model_reads_held_out_digits(torch_model: ModuleType) -> None:
    pytest.importorskip("sklearn")
    images, labels = torch_model.load_data()
    held_out = torch_model.HELD_OUT
    model = torch_model.load_model()
    assert torch_model.accuracy(model, images[:held_out], labels[:held_out]) > 0.96


def test_two_epochs_already_learn_most_digits(torch_model: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("onnxscript")
    images, labels = torch_model.load_data()
    held_out = torch_model.HELD_OUT
    model = torch_model.train(images[held_out:], labels[held_out:], epochs=2)
    assert torch_model.accuracy(model, images[:held_out], labels[:held_out]) > 0.85
    torch_model.export(model, tmp_path / "digits.onnx")
    exported = onnx.load(tmp_path / "digits.onnx").graph
    assert [value.name for value in exported.output] == ["logits", "probabilities"]
    assert set(model.state_dict()) <= {tensor.name for tensor in exported.initializer}


def test_the_keras_model_has_the_same_weights(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    model = keras.models.load_model(FOLDER / "digits.keras")
    tensors = onnx.load(FOLDER / "digits.onnx").graph.initializer
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}
    for name in ("conv1", "conv2"):
        kernel, bias = model.get_layer(name).get_weights()
        np.testing.assert_array_equal(kernel.transpose(3, 2, 0, 1), weights[f"{name}.weight"])
        np.testing.assert_array_equal(bias, weights[f"{name}.bias"])
    np.testing.assert_array_equal(
        model.get_layer("logits").get_weights()[0].T, weights["dense.weight"]
    )


@pytest.mark.parametrize(
    "name", ["compare.py", "digits.keras", "digits.onnx", "keras_model.py", "torch_model.py"]
)
def test_the_readme_names_its_files(name: str) -> None:
    assert name in (FOLDER / "README.md").read_text(encoding="utf-8")
