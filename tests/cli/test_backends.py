"""Built-in backends: nothing but their own modules knows them, and one can be taken away."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import polygraphy
from polygraphy.cli.backends.registry import built_in
from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.domain.catalog.formats import FORMATS
from tests.support import g1

PRODUCT = Path(polygraphy.__file__).parent
OWN = PRODUCT / "cli" / "backends"

JUSTIFIED = {
    # Formats, flags and packages that have the name of a backend, and are none.
    "cli/commands/check/model.py": "which packages check compatibility looks for, and TensorFlow",
    "cli/commands/check/model_options.py": "which backends check compatibility tries",
    "cli/commands/convert.py": "convert makes ONNX models and TensorRT engines",
    "cli/commands/convert_options.py": "convert makes ONNX models and TensorRT engines",
    "cli/commands/debug/engine.py": "debug precision writes the command line of a TensorRT run",
    "cli/commands/debug/onnx_precision.py": "its check command runs the cast model",
    "cli/commands/debug/precision_options.py": "debug precision searches in TensorRT, or without",
    "cli/commands/inspect/model_options.py": "inspect model displays what TensorRT makes of a model",
    "cli/commands/run/run_backends.py": "engines are built of ONNX models, which come of TF graphs",
    "cli/shared/data.py": "arrays are NumPy's or PyTorch's",
}
"""The modules that may name a backend, and why."""


def named(path: Path) -> set[str]:
    """Return the backends whose names or flags are strings of a module, docstrings aside."""
    words = {word: name for name, each in built_in().items() for word in (name, each.flag)}
    words.pop("onnx", None)  # The native format of models, too.
    return {
        words[node.value]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words
    }


def test_only_backends_name_backends() -> None:
    modules = [
        path
        for folder in ("cli", "codegen", "adapters/processes")
        for path in sorted((PRODUCT / folder).rglob("*.py"))
        if not path.is_relative_to(OWN) and "compiled" not in path.parts
    ]
    assert len(modules) > 50
    found = {str(path.relative_to(PRODUCT).as_posix()): named(path) for path in modules}
    assert {path: names for path, names in found.items() if names and path not in JUSTIFIED} == {}
    assert [path for path in JUSTIFIED if not found.get(path)] == []


def test_what_a_backend_declares_can_be_used() -> None:
    flags = [each.flag for each in built_in().values()]
    assert len(set(flags)) == len(flags) >= 7
    for name, each in built_in().items():
        assert each.model_types or each.text, name
        assert set(each.model_types) <= FORMATS.keys(), name
        assert each.declares_runner, name
    assert "PytRunner" in SIGNATURES


Tree = Callable[[str], Path]


@pytest.fixture
def without(tmp_path: Path) -> Tree:
    """Return a function that copies the product without a backend of the command line."""

    def copied(name: str) -> Path:
        ignored = shutil.ignore_patterns("__pycache__", "described.py")
        shutil.copytree(PRODUCT, tmp_path / "polygraphy", ignore=ignored)
        (tmp_path / "polygraphy" / "cli" / "backends" / f"{name}.py").unlink()
        return tmp_path

    return copied


def polygraphy_in(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polygraphy", *words]
    return subprocess.run(command, cwd=tree, text=True, capture_output=True, check=False)


@pytest.mark.parametrize("name", ["torch", "pluginref", "onnx", "tf"])
def test_the_product_works_without_a_backend(without: Tree, name: str) -> None:
    tree, flag = without(name), f"--{name}"
    (tree / "m.onnx").write_bytes(g1.classifier().SerializeToString())
    kept = [each.flag for each in built_in().values() if each.name != name]
    shown = polygraphy_in(tree, "run", "--help").stdout
    assert [one for one in kept if f"\n  {one} " not in shown] == []
    assert f"\n  {flag} " not in shown
    ran = polygraphy_in(tree, "run", "m.onnx", "--onnxrt", "--onnxrt")
    assert ran.returncode == 0, ran.stderr
    asked = polygraphy_in(tree, "run", "m.onnx", "--onnxrt", flag)
    assert asked.returncode == 2
    assert flag in asked.stderr
    assert "Traceback" not in asked.stderr
