"""The contracts of imports leave no package and no room out, and use cases name no technology."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import polygraphy
from polygraphy.domain.catalog.formats import FORMATS

tomllib: Any = pytest.importorskip("tomllib")
PRODUCT = Path(polygraphy.__file__).parent
PYPROJECT = PRODUCT.parent / "pyproject.toml"
ABOVE = {"__init__", "__main__"}
"""Modules of the package itself, which no contract can name apart from it."""
GROUND = {
    "binding",
    "config",
    "constants",
    "func",
    "last_words",
    "lifetime",
    "logger",
    "mod",
    "python_command",
}
GROUND |= {"termination"}
CLI_MAY_USE = {"adapters.console", "adapters.pandas", "adapters.processes", "adapters.report"}

TECHNOLOGY = re.compile(r"onnx|tensorrt|\btrt|cuda|torch|tensorflow|protobuf", re.IGNORECASE)
KEYS = {"onnx", "onnxrt", "tensorrt", "tensorflow"}
"""Keys under which adapters of one port are bound."""
SAID = {
    "onnx_files": "the port that makes values of files in the native format",
    "load_onnx": "a port that makes values of files in the native format",
    "allow_onnxruntime": "an argument of published names",
    "_onnx": "what only the native format has",
}
"""Names of a technology that use cases may have, and why."""
NAMED = {
    "application/models/linting.py": "what reads, tries and lints the native format, by their keys",
    "application/models/model_inspection.py": "the readers of each format, by their keys",
}
"""Use cases that choose an adapter by its key, and why."""


def contracts(kind: str) -> list[dict[str, Any]]:
    found = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]
    return [each for each in found["contracts"] if each["type"] == kind]


def rooms_in(folder: Path) -> set[str]:
    """Return the packages and modules in a folder."""
    packages = {each.name for each in folder.iterdir() if (each / "__init__.py").is_file()}
    return (packages | {each.stem for each in folder.glob("*.py")}) - ABOVE


def packages_in(folder: Path) -> set[str]:
    return {each for each in rooms_in(folder) if (folder / each).is_dir()}


def forbidden() -> Iterator[tuple[set[str], set[str]]]:
    """Yield what is in a contract and what it may not import, without the name of the product."""
    for each in contracts("forbidden"):
        sources, others = each["source_modules"], each["forbidden_modules"]
        yield (
            {name.removeprefix("polygraphy.") for name in sources},
            {name.removeprefix("polygraphy.") for name in others},
        )


@pytest.mark.parametrize(
    ("layer", "may_use"),
    [
        ("ports", GROUND | {"domain"}),
        ("domain", {"binding", "constants", "termination"}),
        ("application", GROUND | {"domain", "ports"}),
        ("adapters", GROUND | {"domain", "ports"}),
        ("codegen", GROUND | {"domain", "ports"}),
        ("cli", GROUND | {"adapters", "codegen", "domain", "ports", "program"}),
    ],
)
def test_a_layer_may_import_what_the_table_says_and_nothing_else(
    layer: str, may_use: set[str]
) -> None:
    others = next(others for sources, others in forbidden() if sources == {layer})
    assert rooms_in(PRODUCT) - {layer} - may_use - others == set()


def test_the_ground_floor_may_import_nothing_else() -> None:
    others = next(others for sources, others in forbidden() if "logger" in sources)
    assert rooms_in(PRODUCT) - GROUND == others


def test_every_adapter_has_its_place() -> None:
    apart = set(contracts("independence")[0]["modules"])
    shared = next(sources for sources, _ in forbidden() if "adapters.base" in sources)
    modules = {path.stem for path in (PRODUCT / "adapters").glob("*.py")} - {"__init__"}
    found = {f"adapters.{name}" for name in packages_in(PRODUCT / "adapters") | modules}
    assert {name.removeprefix("polygraphy.") for name in apart} | shared == found
    closed = next(others for sources, others in forbidden() if sources == {"cli"})
    assert found - CLI_MAY_USE == {name for name in closed if name.startswith("adapters.")}


def ordered() -> Mapping[str, set[str]]:
    """Return the rooms of each container of which a contract orders the rooms."""
    return {
        each["containers"][0]: {room.strip() for row in each["layers"] for room in row.split("|")}
        for each in contracts("layers")
    }


@pytest.mark.parametrize("container", sorted(ordered()))
def test_every_room_of_a_container_has_its_place(container: str) -> None:
    folder = PRODUCT.joinpath(*container.split(".")[1:])
    assert packages_in(folder) - ordered()[container] == set()


def test_every_folder_of_rooms_has_a_contract() -> None:
    with_rooms = {
        ".".join(("polygraphy", *folder.relative_to(PRODUCT).parts))
        for top in ("domain", "application", "adapters", "cli")
        for folder in (PRODUCT / top, *(PRODUCT / top).iterdir())
        if folder.is_dir() and len(packages_in(folder)) > 1
    }
    beside = {"polygraphy.adapters", "polygraphy.cli.commands"}  # Which do not know each other.
    assert with_rooms - beside <= ordered().keys()  # A contract may order files, too.


def technologies(path: Path) -> Iterator[str]:
    """Yield the identifiers of a module that name a technology; keys in texts are one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in KEYS:
            yield node.value
        names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "module"))
        yield from (name for name in names if isinstance(name, str) and TECHNOLOGY.search(name))


def test_use_cases_name_no_technology() -> None:
    found = {
        path.relative_to(PRODUCT).as_posix(): set(technologies(path)) - SAID.keys()
        for path in sorted((PRODUCT / "application").rglob("*.py"))
    }
    assert len(found) > 40
    assert {path: names - KEYS for path, names in found.items() if names - KEYS} == {}
    assert {path for path, names in found.items() if names} == NAMED.keys()


def test_keys_are_those_of_what_reads_models() -> None:
    assert {each.technology for each in FORMATS.values()} - {""} == KEYS - {"onnxrt"}


_KIND = re.compile(r"""kind\s*(==|!=|in|not in)\s*["']([biufcmMOSUVT]+)["']""")
FLOATS_BY_KIND = {
    "adapters/files/store/writers.py": "what `json` writes",
    "adapters/files/small/tokens.py": "asks for integers",
    "adapters/onnx_common/convolution.py": "asks for integers",
    "adapters/onnx_common/elementwise.py": "asks for integers",
    "adapters/onnx_common/quantization.py": "what NumPy itself casts to bfloat16",
    "adapters/tensorflow/reading.py": "a letter of TensorFlow's",
    "domain/arithmetic/passes/blocks.py": "the types of ml_dtypes are known by their names before",
    "domain/diagnosis/solving/ties.py": "asks for integers",
    "domain/search/code_numbers.py": "asks for integers",
    "domain/arithmetic/similarity.py": "is handed numbers that were widened",
    "domain/data/loading.py": "NumPy's own types, which overflow to infinity",
    "domain/results/postprocess.py": "others are widened",
    "domain/tensors/precision.py": "NumPy's own types; others have no digits to lose",
    "domain/tensors/pairing.py": "asks for integers",
    "legacy/arrays.py": "others are widened",
}
"""Modules that ask NumPy whether numbers are rounded, and why that is right there."""


def asks_for_floats(source: str) -> bool:
    """Return whether a program takes arrays for rounded numbers by NumPy's letter for their kind."""
    return any(
        "f" in letters or (operator == "not in" and set("iu") <= set(letters))
        for operator, letters in _KIND.findall(source)
    )


def test_rounded_numbers_are_known_by_one_function() -> None:
    """NumPy has no kind for bfloat16 and the 8-bit types, so that a twin of `is_float` misses
    these, or takes 4-bit integers for rounded numbers.
    """
    found = {
        path.relative_to(PRODUCT).as_posix()
        for path in PRODUCT.rglob("*.py")
        if asks_for_floats(path.read_text(encoding="utf-8"))
    }
    assert found == FLOATS_BY_KIND.keys(), "ask `domain.tensors.precision.is_float`"


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ('array.dtype.kind == "f"', True),
        ("array.dtype.kind != 'f'", True),
        ('one.dtype.kind not in "iub"', True),
        ('one.dtype.kind in "fV"', True),
        ('one.dtype.kind in "iub"', False),
        ('parameter.kind == "positional"', False),
    ],
)
def test_every_form_of_the_question_is_found(source: str, asks: bool) -> None:
    assert asks_for_floats(source) is asks
