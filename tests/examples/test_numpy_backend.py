"""The example of a backend in a package of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import models
from tests.support.distributions import install

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest needs it there

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = EXAMPLES / "numpy_backend"
DIGITS = EXAMPLES / "digits" / "digits.onnx"

PROGRAM = '''\
#!/usr/bin/env python3
"""Compare digits.onnx in NumPy and ONNX Runtime.

polygraphy run digits.onnx --numpy --numpy-dtype float64 --onnxrt
"""

from polygraphy_numpy import NumpyGraphFromOnnx, NumpyRunner

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator

MODEL = "digits.onnx"


def main() -> bool:
    runners = [
        NumpyRunner(NumpyGraphFromOnnx(MODEL), dtype="float64"),
        OnnxrtRunner(SessionFromOnnx(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that makes the example look installed, as its pyproject.toml says."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return install(tmp_path_factory.mktemp("site"), project["entry-points"], name=project["name"])


def polygraphy(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (site, FOLDER, EXAMPLES.parent)))
    return subprocess.run(
        [sys.executable, "-m", "polygraphy", *words],
        cwd=DIGITS.parent,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_agrees_with_another_backend(site: Path) -> None:
    done = polygraphy(
        site, "run", DIGITS.name, "--numpy", "--numpy-dtype", "float64", "--onnxrt",
        "--load-inputs", "digits_inputs.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "numpy vs. onnxrt" in done.stdout
    assert "PASSED  2 outputs matched in 4 iterations" in done.stdout


def test_the_program_reads_as_a_person_would_have_written_it(site: Path) -> None:
    done = polygraphy(
        site, "run", DIGITS.name, "--numpy", "--numpy-dtype", "float64", "--onnxrt",
        "--gen-script", "-",
    )  # fmt: skip
    assert done.stdout == PROGRAM


def test_it_passes_the_suites_that_are_published(site: Path, tmp_path: Path) -> None:
    """Outside of this repository, whose configuration of pytest does not reach there."""
    shutil.copytree(FOLDER / "tests", tmp_path / "tests")
    path = os.pathsep.join(map(str, (site, FOLDER, EXAMPLES.parent)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_help_lists_it(site: Path) -> None:
    shown = polygraphy(site, "run", "--help").stdout
    assert "--numpy                 Run the model in NumPy" in shown
    assert "--numpy-dtype {float32,float64}" in shown


def test_an_operator_that_it_lacks_is_named(site: Path, tmp_path: Path) -> None:
    models.save(models.custom_op(), tmp_path / "custom.onnx")
    done = polygraphy(site, "run", str(tmp_path / "custom.onnx"), "--numpy")
    assert done.returncode == 3
    assert "Supported: Add, Conv, Div," in done.stdout + done.stderr


def test_the_arithmetic_is_in_the_type_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from polygraphy_numpy import NumpyGraphFromOnnx, NumpyRunner

    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    found = {}
    for dtype in (None, "float32", "float64"):
        with NumpyRunner(NumpyGraphFromOnnx(str(DIGITS)), dtype=dtype) as runner:
            found[dtype] = runner.infer({"image": image})["logits"]
    assert found["float64"].dtype == np.float32
    np.testing.assert_array_equal(found[None], found["float32"])
    np.testing.assert_allclose(found["float64"], found["float32"], rtol=1e-4, atol=1e-5)
    assert (found["float64"] != found["float32"]).any()
