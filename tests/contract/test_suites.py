"""Every port with more than one adapter, fakes included, has a suite here that each of them passes."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from polygraphy import ports, wiring
from polygraphy.adapters import fake
from polygraphy.domain.accuracy.answer_log import Spool
from polygraphy.domain.compare.measures import PerceptualDistance
from polygraphy.domain.tensors.datatype import DataTypeConverter

FOLDER = Path(__file__).parent
ROOT = Path(ports.__path__[0]).parent
SUITES = {
    "Commands": "commands",
    "Console": "console",
    "DataTypeConverter": "datatype_converter",
    "DeviceMemory": "memory",
    "ModelTrial": "model_trial",
    "NarrowModels": "narrow_models",
    "PerceptualDistance": "perceptual_distance",
    "Progress": "progress",
    "ResultStore": "result_store",
    "SuspectedParty": "suspected_party",
    "SweepEngine": "sweep_engine",
}
"""By port: the test module that is its suite."""
ELSEWHERE = {
    "TrtParty": "gpu/test_diagnosing.py",
    "RayEngine": "adapters/ray/test_engine.py",
    "PackageParty": "application/diagnose/test_third_opinion.py",
}
"""Adapters that run on a GPU only, or refuse most models by intention, and what tests them."""


def protocols() -> dict[str, type]:
    """Return every port by name: the protocols of `polygraphy.ports`, and those of the domain."""
    found: dict[str, type] = {
        port.__name__: port for port in (DataTypeConverter, PerceptualDistance, Spool)
    }
    modules = [each.name for each in pkgutil.iter_modules(ports.__path__, "polygraphy.ports.")]
    for module in ("polygraphy.domain.ports", *modules):
        for name, value in vars(import_module(module)).items():
            is_own = getattr(value, "__module__", None) == module
            if inspect.isclass(value) and is_own and getattr(value, "_is_protocol", False):
                found[name] = value
    return found


def implements(adapter: type, port: type) -> bool:
    """Return whether a class has the methods of a port, with parameters of the same names."""
    methods = [
        (name, method)
        for name, method in vars(port).items()
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__call__")
    ]
    return bool(methods) and all(
        inspect.isfunction(own := getattr(adapter, name, None))
        and list(inspect.signature(own).parameters) == list(inspect.signature(method).parameters)
        for name, method in methods
    )


def bindings() -> list[tuple[str, str]]:
    """Return each port that is bound, with its key, and the place of its adapter."""
    table: dict[str, dict[str, str]] = vars(wiring)["_ADAPTERS"]
    return [row for section in table.values() for row in section.items()]


def adapters() -> dict[str, set[tuple[str, str]]]:
    """Return by port the class names of its adapters, each with the key that it is bound by."""
    found: dict[str, set[tuple[str, str]]] = {name: set() for name in protocols()}
    for slot, place in bindings():
        name, _, key = slot.partition("/")
        if name in found:  # Else it is a function.
            found[name].add((place.partition(":")[2], key))
    for made in fake.__all__:
        value: Any = getattr(fake, made)
        for name, port in protocols().items():
            if implements(value, port):
                found[name].add((made, ""))
    return found


SEVERAL = sorted(
    name for name, made in adapters().items() if len({adapter for adapter, _ in made}) > 1
)


def test_the_table_of_adapters_is_sorted_by_the_module_of_the_port_and_by_its_name() -> None:
    table: dict[str, dict[str, str]] = vars(wiring)["_ADAPTERS"]
    assert [*table] == sorted(table)
    for module, section in table.items():
        assert [*section] == sorted(section, key=str.lower)
        names = {slot.partition("/")[0] for slot in section}
        assert {getattr(import_module(module), name).__module__ for name in names} == {module}


def test_ports_with_one_adapter_have_a_reason() -> None:
    text = (FOLDER.parent.parent / "docs" / "development" / "architecture.md").read_text(
        encoding="utf-8"
    )
    section = text.partition("## Ports with one adapter\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    bound = {slot.partition("/")[0] for slot, _ in bindings()}
    assert sorted(listed) == sorted((bound & protocols().keys()).difference(SEVERAL))


def test_functions_that_are_ports_are_bound_and_take_what_the_port_says() -> None:
    declared = _functions()
    bound = [
        (slot.partition("/")[0], place)
        for slot, place in bindings()
        if slot.partition("/")[0] not in protocols()
    ]
    assert declared.keys() == {name for name, _ in bound}
    for name, place in bound:
        signature, _ = declared[name]
        module, _, adapter = place.partition(":")
        found = inspect.signature(getattr(import_module(module), adapter)).parameters
        assert list(found)[: len(signature)] == signature, name
        more = list(found.values())[len(signature) :]
        assert all(each.default is not each.empty for each in more), name


def _functions() -> dict[str, tuple[list[str], str]]:
    """Return the functions that are ports by name: what they take, and where they are declared."""
    found = {}
    for file in [*(ROOT / "ports").glob("*.py"), *(ROOT / "domain").rglob("*.py")]:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "port" in map(
                ast.unparse, node.decorator_list
            ):
                variadic = [node.args.vararg] if node.args.vararg else []
                taken = [*node.args.posonlyargs, *node.args.args, *variadic, *node.args.kwonlyargs]
                found[node.name] = ([each.arg for each in taken], file.name)
    return found


def test_ports_of_the_domain_know_no_value_of_it() -> None:
    """Annotations count: one value would tie every file that asks for a port to those of its own."""
    tree = ast.parse((ROOT / "domain" / "ports.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name and name.startswith("polygraphy.")} == {
        "polygraphy.binding"
    }


def test_ports_are_found() -> None:
    assert {"Console", "ResultStore", "DataTypeConverter", "NarrowModels"} <= set(SEVERAL)
    assert ("RecordingConsole", "") in adapters()["Console"]
    assert not implements(fake.RecordingConsole, protocols()["ResultStore"])


@pytest.mark.parametrize("port", SEVERAL)
def test_every_adapter_passes_the_suite_of_its_port(port: str) -> None:
    assert port in SUITES, f"{port} has several adapters: write tests/contract/test_....py"
    text = (FOLDER / f"test_{SUITES[port]}.py").read_text(encoding="utf-8")
    missing = [
        adapter
        for adapter, key in adapters()[port]
        if adapter not in ELSEWHERE
        and not re.search(rf"\b{adapter}\b", text)
        and not (key and f'"{key}"' in text)
    ]
    assert not missing, f"The suite of {port} leaves out {missing}."


def test_what_runs_elsewhere_is_there() -> None:
    assert all((FOLDER.parent / place).is_file() for place in ELSEWHERE.values())


@pytest.mark.parametrize("port", SUITES)
def test_every_suite_is_of_a_port(port: str) -> None:
    assert port in SEVERAL
