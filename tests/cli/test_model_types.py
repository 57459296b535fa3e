"""The types of models: what each is run as, and what is said of those that nothing runs any more."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import polygraphy
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.shared.model import MODEL_TYPES
from polygraphy.domain.catalog.formats import FORMATS, format_named
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model.source import kind_of
from polygraphy.inspect import inspect_model
from tests.codegen.commands import rendered

LOADERS = {
    "frozen": ("--tf", "GraphFromFrozen"),
    "keras": ("--tf", "GraphFromKeras"),
    "saved-model": ("--tf", "GraphFromSavedModel"),
    "ckpt": ("--tf", "GraphFromCkpt"),
    "onnx": ("--onnxrt", "SessionFromOnnx"),
    "engine": ("--trt", "EngineFromPath"),
    "trt-network-script": ("--trt", "InvokeFromScript"),
}
REMOVED = {"uff": ".uff", "caffe": ".prototxt"}
TENSORFLOW = ("frozen", "keras", "saved-model", "ckpt")


def test_every_type_is_tried_here() -> None:
    assert set(LOADERS) | set(REMOVED) == set(MODEL_TYPES)


@pytest.mark.parametrize("kind", LOADERS)
def test_the_type_chooses_the_loader(kind: str) -> None:
    runner, loader = LOADERS[kind]
    assert loader in rendered(f"run m {runner} --model-type {kind}")


@pytest.mark.parametrize("kind", TENSORFLOW)
@pytest.mark.parametrize(
    "command", ["run m --onnxrt", "convert m -o n.onnx", "check compatibility m --onnx"]
)
def test_models_of_tensorflow_become_onnx_models(command: str, kind: str) -> None:
    program = rendered(f"{command} --model-type {kind}")
    assert LOADERS[kind][1] in program
    assert "OnnxFromTfGraph" in program or "onnx_from_tf_graph" in program


@pytest.mark.parametrize("kind", REMOVED)
@pytest.mark.parametrize(
    "command", ["run {} --trt", "run {} --tf", "convert {} -o n.engine", "check compatibility {}"]
)
def test_a_type_that_is_gone_tells_what_to_do_instead(command: str, kind: str) -> None:
    for model in (f"m{REMOVED[kind]}", f"m --model-type {kind}"):
        with pytest.raises(CommandLineError, match=f"type {kind}.*Convert it to ONNX"):
            rendered(command.format(model))


@pytest.mark.parametrize("kind", REMOVED)
def test_no_type_that_is_gone_is_described(kind: str) -> None:
    with pytest.raises(UsageError, match=f"type {kind}.*Convert it to ONNX"):
        inspect_model(f"m{REMOVED[kind]}")


@pytest.mark.parametrize("kind", ["engine", "trt-network-script"])
def test_what_belongs_to_tensorrt_alone_is_not_tried_elsewhere(kind: str) -> None:
    with pytest.raises(CommandLineError, match=rf"type {kind}.*polygraphy run m --trt"):
        rendered(f"check compatibility m --model-type {kind}")


@pytest.mark.parametrize(
    ("command", "others"),
    [
        ("run m.onnx --tf", "--onnxrt, --onnx, "),
        ("check compatibility m.onnx --tf", "--onnxrt, --onnx"),
    ],
)
def test_tensorflow_runs_no_onnx_model(command: str, others: str) -> None:
    with pytest.raises(CommandLineError, match=f"--tf cannot run; {others}"):
        rendered(command)


def test_only_backends_of_the_command_are_proposed() -> None:
    with pytest.raises(CommandLineError) as refused:
        rendered("check compatibility m.onnx --tf")
    assert "--pluginref" not in str(refused.value)


@pytest.mark.parametrize("extension", [".engine", ".plan", ".trt", ".TRT"])
def test_every_command_takes_an_engine_for_one(extension: str) -> None:
    assert "EngineFromPath" in rendered(f"run m{extension} --trt")
    assert "save_engine" in rendered(f"convert m.onnx -o m{extension}")
    debug = rendered(f"debug build m.onnx --until 1 --iter-artifact m{extension}")
    assert "--model-type" not in debug
    assert kind_of(f"m{extension}") == "engine" == format_named(f"m{extension}")
    for words in (f"m{extension} -o x.onnx", f"m.onnx --convert-to onnx -o m{extension}"):
        with pytest.raises(CommandLineError, match="TensorRT engine"):
            rendered(f"convert {words}")


def test_a_file_whose_name_contains_a_script_is_not_a_script() -> None:
    assert format_named("a.py:load.onnx") == "onnx"
    assert format_named("a.PY:load") == "trt-network-script"


def test_there_is_one_table_of_formats() -> None:
    """No other module of the package spells the extension of a format as a text of its own."""
    extensions = {end for each in FORMATS.values() for end in each.extensions}
    allowed = {"domain/catalog/formats.py"}
    package = Path(polygraphy.__file__).parent
    found = set()
    for path in (*package.glob("cli/**/*.py"), *package.glob("domain/**/*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        tables = [node for node in ast.walk(tree) if isinstance(node, (ast.Dict, ast.Tuple))]
        for table in tables:
            elements = table.keys if isinstance(table, ast.Dict) else table.elts
            texts = {each.value for each in elements if isinstance(each, ast.Constant)}
            if len(texts & extensions) > 1:
                found.add(path.relative_to(package).as_posix())
    assert found <= allowed
