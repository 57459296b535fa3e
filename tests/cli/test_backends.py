"""Built-in backends: nothing but their own modules knows them, and one can be taken away."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs
import pytest

import polygraphy
from polygraphy.cli.backends.built_in import BuiltInBackend, backends_by_name
from polygraphy.cli.backends.onnxrt import OnnxrtOptions
from polygraphy.cli.commands.listing import load_command
from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.domain.catalog.formats import FORMATS
from tests.support import classifier_files

PRODUCT = Path(polygraphy.__file__).parent
OWN = (PRODUCT / "cli" / "backends", PRODUCT / "cli" / "commands" / "trt")

JUSTIFIED = {
    # Formats, flags and packages that have the name of a backend, and are none.
    "cli/commands/check/model.py": "which backends check compatibility tries, and their packages",
    "cli/commands/inspect/model_options.py": "inspect model displays what TensorRT makes of a model",
    "cli/commands/listing.py": "TensorRT has commands of its own",
    "cli/short_help.py": "which options of run and diagnose most people need",
    "cli/parser.py": "what to do in place of a flag that a command lacks",
    "cli/shared/data.py": "arrays are NumPy's or PyTorch's",
}
"""The modules that may name a backend, and why."""


def named(path: Path) -> set[str]:
    """Return the backends whose names or flags are strings of a module, docstrings aside."""
    words = {word: name for name, each in backends_by_name().items() for word in (name, each.flag)}
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
        if not any(path.is_relative_to(own) for own in OWN) and "compiled" not in path.parts
    ]
    assert len(modules) > 50
    found = {str(path.relative_to(PRODUCT).as_posix()): named(path) for path in modules}
    assert {path: names for path, names in found.items() if names and path not in JUSTIFIED} == {}
    assert [path for path in JUSTIFIED if not found.get(path)] == []


def test_what_a_backend_declares_can_be_used() -> None:
    flags = [each.flag for each in backends_by_name().values()]
    assert len(set(flags)) == len(flags) >= 7
    for name, each in backends_by_name().items():
        assert each.model_types or each.text, name
        assert set(each.model_types) <= FORMATS.keys(), name
        assert (each.call is not attrs.fields(BuiltInBackend).call.default) != (
            each.choose is not None
        ), name
    assert "PytRunner" in SIGNATURES


def test_a_command_line_that_names_one_backend_has_no_options_of_others() -> None:
    for name in ("run", "diagnose"):
        every = load_command(name)
        few = every.extend({"--onnxrt", "--seed", "-v"})
        assert OnnxrtOptions in few.groups
        assert set(few.groups) < set(every.groups)
        assert not [group for group in few.groups if "Trt" in group.__name__]
        for flags in ({"--onnxrt", "--tf32"}, {"--onnxrt", "--no-such"}, {"--onnxr"}):
            assert every.extend(flags).groups == every.groups, flags


@pytest.mark.slow
def test_options_of_tensorrt_are_imported_where_it_takes_part(tmp_path: Path) -> None:
    told = (
        "import sys; from polygraphy.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    )
    for flag, is_imported in (("--onnxrt", False), ("--trt", True)):
        words = ["run", "m.onnx", flag, "--gen-script", str(tmp_path / f"{flag}.py")]
        ran = subprocess.run(
            [sys.executable, "-c", told, *words], text=True, capture_output=True, check=True
        )
        assert ("polygraphy.cli.backends.trt.config_options" in ran.stdout) is is_imported


Tree = Callable[[str], Path]


@pytest.fixture
def without(tmp_path: Path) -> Tree:
    """Return a function that copies the product without a backend of the command line."""

    def copied(name: str) -> Path:
        ignored = shutil.ignore_patterns("described.py")
        shutil.copytree(PRODUCT, tmp_path / "polygraphy", ignore=ignored)
        cli = tmp_path / "polygraphy" / "cli"
        if name == "trt":
            for room in ("backends", "commands"):
                shutil.rmtree(cli / room / name)
        else:
            (cli / "backends" / f"{name}.py").unlink()
        (tmp_path / "m.onnx").write_bytes(classifier_files.classifier().SerializeToString())
        return tmp_path

    return copied


class Answer(NamedTuple):
    """What a command line returned and wrote."""

    returncode: int
    stdout: str
    stderr: str


_ONE_BY_ONE = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from polygraphy.cli.main import main

answers = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    answers.append([code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


def polygraphy_in(tree: Path, *commands: Sequence[str], before: str = "") -> list[Answer]:
    """Return the answers to command lines of a product, in one process: its start takes longer than
    most of them. `before` runs first.
    """
    command = [sys.executable, "-c", before + _ONE_BY_ONE, json.dumps(commands)]
    done = subprocess.run(command, cwd=tree, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]


@pytest.mark.parametrize("name", ["onnxrt", "torch", "openvino", "pluginref", "onnx", "tf", "trt"])
@pytest.mark.slow
def test_the_product_works_without_a_backend(without: Tree, name: str) -> None:
    tree, flag = without(name), f"--{name}"
    gone = {
        one
        for one, each in backends_by_name().items()
        if one == name or each.flag == "--trt-engine"
    }
    kept = [each.flag for one, each in backends_by_name().items() if one not in gone]
    other = "--onnxrt" if name != "onnxrt" else "--onnx"
    shown, ran, asked = polygraphy_in(
        tree,
        ["run", "--help"],
        ["run", "m.onnx", other, other],
        ["run", "m.onnx", other, flag],
    )
    assert [one for one in kept if f"\n  {one} " not in shown.stdout] == []
    assert f"\n  {flag} " not in shown.stdout
    assert ran.returncode == 0, ran.stderr
    assert asked.returncode == 2
    assert flag in asked.stderr
    assert "Traceback" not in asked.stderr


_EVERY = """
from polygraphy.cli.commands.listing import COMMANDS, load_command
assert len(COMMANDS) > 25
for name in COMMANDS:
    assert load_command(name).extend().groups
"""


@pytest.mark.parametrize("name", ["onnxrt", "trt"])
@pytest.mark.slow
def test_other_commands_work_without_a_backend(without: Tree, name: str) -> None:
    tree = without(name)
    commands = (
        ["inspect", "model", "m.onnx", "--show", "layers"],
        ["convert", "m.onnx", "--fp-to-fp16", "-o", "half.onnx"],
        ["surgeon", "sanitize", "m.onnx", "--fold-constants", "-o", "folded.onnx"],
        ["check", "lint", "m.onnx"],
        ["check", "compatibility", "m.onnx"],
        ["template", "onnx-gs", "m.onnx", "-o", "edit.py"],
        ["--completion", "bash"],
    )
    for words, done in zip(commands, polygraphy_in(tree, *commands, before=_EVERY)):
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.slow
def test_what_needs_tensorrt_says_so_without_its_backend(without: Tree) -> None:
    tree = without("trt")
    said = (
        (["run", "graph.pb", "--tf", "--tftrt"], "requires the TensorRT backend"),
        (["convert", "m.onnx", "--convert-to", "trt"], "--convert-to"),
        (["convert", "m.onnx", "-o", "m.engine"], "does not select a format"),
        (["debug", "precision", "m.onnx", "--fp16"], "unknown command"),
        (["template", "trt-config", "-o", "-"], "unknown command"),
        (["diagnose", "m.onnx", "--onnxrt", "--trt"], "--trt"),
    )
    helps = ["--help"], ["debug", "--help"]
    *answers, all_help, debug_help = polygraphy_in(tree, *(words for words, _ in said), *helps)
    for (words, part), asked in zip(said, answers):
        assert asked.returncode == 2, (words, asked.stderr)
        assert part in asked.stderr
        assert len(asked.stderr.splitlines()) == 2, asked.stderr  # The second names the help.
    listed = all_help.stdout + debug_help.stdout
    assert "precision" not in listed
    assert "reduce" in listed
