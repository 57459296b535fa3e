"""What people's scripts import is there, sorted, documented, and cheap to import."""

from __future__ import annotations

import ast
import importlib
import inspect
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polygraphy.addresses import ADDRESSES, stub_of
from tests.support.cases import for_each

_GENERATE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "generate.py"))
_PARTS = [
    "polygraphy.backend.base.util",
    "polygraphy.backend.onnx.util",
    "polygraphy.backend.pluginref.references",
    "polygraphy.backend.tf.util",
    "polygraphy.backend.trt.util",
    "polygraphy.common.interface",
    "polygraphy.comparator.struct",
    "polygraphy.comparator.util",
    "polygraphy.datatype.numpy",
    "polygraphy.datatype.onnx",
    "polygraphy.datatype.onnxrt",
    "polygraphy.datatype.tensorrt",
    "polygraphy.datatype.torch",
    "polygraphy.logger.logger",
    "polygraphy.util.array",
    "polygraphy.util.misc",
]
"""Published modules that have no page."""
MODULES = sorted([*_GENERATE["MODULES"], *_PARTS])
PUBLISHED: dict[str, list[str]] = {
    name: list(importlib.import_module(name).__all__) for name in MODULES
}
"""What each module publishes. What scripts and NVIDIA's documentation need of that is held to by
`test_client_paths.py` and `test_documented_names.py`.
"""
FOREIGN = [
    "black",
    "google.protobuf",
    "jinja2",
    "onnx",
    "onnxruntime",
    "rich",
    "tensorflow",
    "tensorrt",
    "torch",
]

every_module = for_each("name", PUBLISHED)


def by_kind_and_name(name: str) -> tuple[int, str]:
    """Order constants before classes before functions, as linters do."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def public_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions and properties that a class of ours shows, inherited ones too."""
    for name, member in inspect.getmembers(owner):
        if name.startswith("_"):
            continue
        function = member.fget if isinstance(member, property) else member
        module = getattr(inspect.unwrap(function), "__module__", None) if callable(function) else ""
        if str(module).startswith("polygraphy") and not isinstance(member, type):
            yield name, member


def symbols() -> list[tuple[str, str]]:
    return [(module, symbol) for module, names in PUBLISHED.items() for symbol in names]


@for_each("name", ADDRESSES)
def test_other_addresses_have_what_their_home_has(name: str) -> None:
    module, home = importlib.import_module(name), ADDRESSES[name].partition(":")
    target = importlib.import_module(home[0])
    target = getattr(target, home[2]) if home[2] else target
    assert module.__name__ == name and module.__all__ == target.__all__
    assert all(getattr(module, symbol) is getattr(target, symbol) for symbol in target.__all__)
    with pytest.raises(AttributeError):
        _ = module.nothing
    ast.parse(stub_of(name))


def test_what_is_at_no_address_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"polygraphy\.backend\.trt\.nothing"):
        importlib.import_module("polygraphy.backend.trt.nothing")


@every_module
def test_the_public_names_are_there_once(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(PUBLISHED[name]) <= set(dir(module))  # Shells complete from it.
    for symbol in PUBLISHED[name]:
        assert hasattr(module, symbol)


@every_module
def test_the_public_names_are_sorted(name: str) -> None:
    names = importlib.import_module(name).__all__
    assert names == sorted(names, key=by_kind_and_name)


@every_module
def test_modules_are_documented(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@for_each("module, symbol", symbols())
def test_what_is_public_is_documented(module: str, symbol: str) -> None:
    target = getattr(importlib.import_module(module), symbol)
    if not isinstance(target, type) and not inspect.isfunction(target):
        return
    assert (target.__doc__ or "").strip()
    if isinstance(target, type):
        missing = [name for name, member in public_members(target) if not inspect.getdoc(member)]
        assert missing == []


def test_there_are_members_to_look_at() -> None:
    from polygraphy.comparator import OutputCompareResult, RunResults

    assert {"concat", "split", "save", "keys"} <= {name for name, _ in public_members(RunResults)}
    assert {"excess", "passed"} <= {name for name, _ in public_members(OutputCompareResult)}


_IMPORTS = """
import os, sys
import numpy  # Which most of them import.
for name in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        __import__(name)
        print(name, *sys.modules, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.mark.slow
def test_importing_is_cheap() -> None:
    words = [sys.executable, "-c", _IMPORTS, *PUBLISHED]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = {name: {*found} for name, *found in map(str.split, done.stdout.splitlines())}
    assert imported.keys() == PUBLISHED.keys(), done.stderr
    foreign = {name: found.intersection(FOREIGN) for name, found in imported.items()}
    assert {name: found for name, found in foreign.items() if found} == {}


def test_loaders_have_a_function_that_calls_them_at_once() -> None:
    for module, symbol in symbols():
        if module == "polygraphy.testing":
            continue
        target = getattr(importlib.import_module(module), symbol)
        if inspect.isclass(target) and hasattr(target, "call_impl") and symbol != "BaseLoader":
            words = symbol.replace("RTX", "Rtx")
            words = "".join(f"_{c.lower()}" if c.isupper() else c for c in words)
            assert words.removeprefix("_") in PUBLISHED[module]


def test_old_names_mean_the_new_things() -> None:
    from polygraphy import comparator

    assert comparator.SimpleThreshold is comparator.Tolerance


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("CompareFunc.simple", "SimpleCompareFunc", {"rtol": 1e-3}),
        ("CompareFunc.basic_compare_func", "SimpleCompareFunc", {"atol": 1e-3, "fail_fast": True}),
        ("CompareFunc.indices", "IndicesCompareFunc", {"index_tolerance": 1}),
        ("PostprocessFunc.top_k", "TopKPostprocessFunc", {"k": 3}),
    ],
)
def test_old_factories_work_and_warn(
    old: str, new: str, words: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from polygraphy import comparator

    owner, name = old.split(".")
    made = getattr(getattr(comparator, owner), name)(**words)
    assert type(made) is getattr(comparator, new)
    assert vars(made) == vars(getattr(comparator, new)(**words))
    assert f"{old} is deprecated" in capsys.readouterr().out


@pytest.mark.parametrize("name", _GENERATE["EXAMPLES"])
def test_examples_on_the_pages_of_modules_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
    (tmp_path / "model.onnx").write_bytes(digits.read_bytes())
    monkeypatch.chdir(tmp_path)
    example = _GENERATE["EXAMPLES"][name]
    names: dict[str, Any] = {}
    exec(example, names)
    assert f"from {name} import" in example
    assert f"```python\n{example}\n```" in _GENERATE["module"](name)
    assert name != "polygraphy.backend.onnxrt" or names["outputs"]["logits"].shape == (1, 10)
