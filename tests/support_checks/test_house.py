"""Files fit into a head, folders into a minute, and methods say what they do, once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.house import ROOT, inherited_docstrings, methods, modules, published_names

MOST_LINES = 700
MOST_MODULES = 20
_SILENT_NUMBER = re.compile(
    r'^(_?[A-Z][A-Z0-9_, ]*) = (?=[^"\n]*\b\d)[^\n]*(?<![({\[])\n(?!""")', re.M
)
_IMPORT = re.compile(r"^ *from polygraphy\.([\w.]+) import (\([^)]*\)|.*)$", re.M)


def test_files_are_short() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.rglob("*.py")
        if "compiled" not in path.parts
    }
    long = {path: n for path, n in lengths.items() if n > MOST_LINES}
    assert not long, "cut them by what they are about"


def test_tests_take_helpers_from_support_and_not_from_each_other() -> None:
    taken = re.compile(r"^from tests\.[\w.]*\btest_\w+ import", re.M)
    tests = Path(__file__).parents[1]
    texts = {path: path.read_text(encoding="utf-8") for path in tests.rglob("test_*.py")}
    assert not [path.name for path, text in texts.items() if taken.search(text)]


def test_folders_have_few_modules() -> None:
    def modules_of(folder: Path) -> int:
        return sum(1 for path in folder.glob("*.py") if not path.stem.startswith("__"))

    folders = {path.parent for path in ROOT.rglob("*.py") if "compiled" not in path.parts}
    crowded = {str(folder): modules_of(folder) for folder in folders - {ROOT}}
    assert {name for name, count in crowded.items() if count > MOST_MODULES} == set()


@pytest.mark.parametrize("folder", ["domain", "application/diagnose", "ports"])
def test_modules_need_each_other_in_one_direction_even_for_annotations(folder: str) -> None:
    """The import contracts leave out annotations, and imports in functions hide a circle."""
    try:
        TopologicalSorter(_needed_modules(folder)).prepare()
    except CycleError as error:
        pytest.fail(f"these modules need each other: {' -> '.join(error.args[1])}")


def _needed_modules(folder: str) -> Mapping[str, Set[str]]:
    """Return by module of a folder the others that it imports anywhere in its text."""
    texts = {
        re.sub(r"(/__init__)?\.py$", "", path.relative_to(ROOT).as_posix()).replace("/", "."): path
        for path in (ROOT / folder).rglob("*.py")
    }
    return {
        name: {
            needed
            for module, names in _IMPORT.findall(path.read_text(encoding="utf-8"))
            for imported in re.findall(r"\w+(?: as \w+)?", names)
            for inner in [f"{module}.{imported.partition(' ')[0]}"]
            for needed in [inner if inner in texts else module]
            if needed in texts and needed != name
        }
        for name, path in texts.items()
    }


def test_numbers_of_the_diagnosis_say_what_they_are() -> None:
    """A threshold that nobody explains is never changed again."""
    folders = (ROOT / "domain" / "diagnosis", ROOT / "application" / "diagnose")
    silent = [
        f"{path.name}: {name}"
        for folder in folders
        for path in folder.rglob("*.py")
        for name in _SILENT_NUMBER.findall(path.read_text(encoding="utf-8"))
    ]
    assert not silent, "say in a string below it what it is, in which unit, and why"


def test_errors_of_other_code_are_caught_in_one_place() -> None:
    """An exporter may raise anything, but so does a mistake of ours, which must not be silent."""
    broad = re.compile(r"^ *except (?:Base)?Exception\b", re.M)
    texts = [
        *(ROOT / "domain/diagnosis").rglob("*.py"),
        *(ROOT / "application/diagnose").rglob("*.py"),
    ]
    names = [path.name for path in texts if broad.search(path.read_text(encoding="utf-8"))]
    assert names == ["foreign_errors.py"], "use `foreign_errors`"


def test_public_methods_are_documented_where_they_are_declared() -> None:
    missing = [
        f"{method.path}:{method.line} {method.owner}.{method.name}"
        for method in methods()
        if not method.owner.startswith("_")
        and not method.docstring
        and not inherited_docstrings(method)
    ]
    assert not missing, "say what it does; a method of a base class or a port need not"


def test_overrides_do_not_repeat_what_is_said_above() -> None:
    repeated = [
        f"{method.path}:{method.line} {method.owner}.{method.name}"
        for method in methods()
        if method.docstring in inherited_docstrings(method)
        and not (method.is_declared or method.is_empty or method.owner in published_names())
    ]
    assert not repeated, "leave the docstring out"


def test_comprehensions_use_the_variables_that_they_declare() -> None:
    """A renamed variable that now stands for one outside gives the same value every time."""
    loops = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    unused = [
        f"{path}:{node.lineno}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, loops) and not _uses_own_variables(node)
    ]
    assert not unused, "use the variable, or name it _"


def _uses_own_variables(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> bool:
    """Return whether the elements depend on a variable of the comprehension, or on none at all."""
    elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    targets = [loop.target for loop in node.generators]
    targets += [part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
    own, used = (_names(parts) for parts in (targets, elements))
    return bool(own & used) or not used or own == {"_"}


def _names(trees: Iterable[ast.AST]) -> set[str]:
    """Return the names of the variables in expressions."""
    return {part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)}
