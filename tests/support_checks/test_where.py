"""The page on the architecture answers "where is ...?" with functions that are there, once each."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.house import ROOT

PAGE = ROOT.parent / "docs" / "development" / "architecture.md"
_DEFINITION = re.compile(r"^(?:def|class) (\w+)", re.M)
ANSWERS = sorted(set(re.findall(r"`(polygraphy/[\w/]+)\.py:(\w+)`", PAGE.read_text("utf-8"))))


def test_there_are_answers() -> None:
    assert len(ANSWERS) > 20


@pytest.mark.parametrize(("path", "name"), ANSWERS)
def test_an_answer_is_there_and_is_the_only_one_of_its_name(path: str, name: str) -> None:
    module = import_module(path.replace("/", "."))
    assert callable(getattr(module, name))
    others = [file for file in _defining(name) if file != ROOT.parent / f"{path}.py"]
    ideas = [file for file in others if "words" not in file.parts]  # They are its sentences.
    layers = [file for file in ideas if "domain" in file.parts or "application" in file.parts]
    assert not layers, "one idea has one place"


@pytest.mark.parametrize("path", sorted({path for path, _ in ANSWERS}))
def test_a_module_holds_no_second_public_answer(path: str) -> None:
    said = {name for module, name in ANSWERS if module == path}
    tree = ast.parse((ROOT.parent / f"{path}.py").read_text("utf-8"))
    made = {
        node.name: ast.unparse(node.returns).removesuffix(" | None")
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.returns is not None
    }
    kinds = {made[name] for name in said & made.keys()} - {"None", "bool", "str"}
    own = {kind for kind in kinds if kind.isidentifier()}  # A list or a text answers much.
    second = {name for name, kind in made.items() if kind in own and not name.startswith("_")}
    assert not second - said, "name it on the page, or make it part of the answer"


def _defining(name: str) -> list[Path]:
    """Return the files with a public function or class of a name at their top."""
    return _definitions().get(name, [])


@cache
def _definitions() -> dict[str, list[Path]]:
    definitions: dict[str, list[Path]] = {}
    for file in ROOT.rglob("*.py"):
        if "compiled" not in file.parts:
            for name in _DEFINITION.findall(file.read_text("utf-8")):
                definitions.setdefault(name, []).append(file)
    return definitions
