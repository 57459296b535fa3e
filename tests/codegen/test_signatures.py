"""The signatures that the command line reads are those of the published names."""

from __future__ import annotations

import ast
import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from textwrap import wrap
from typing import Any

import pytest
from black import Mode, format_str

from polygraphy import backend, cli
from polygraphy.adapters.tensorrt.engine.config import CreateConfig, CreateConfigRTX
from polygraphy.adapters.tensorrt.engine.config_settings import CommonSettings
from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.codegen import signatures
from polygraphy.codegen.render import LINE_LENGTH
from polygraphy.codegen.signatures import SIGNATURES, Signature
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare import metrics

STUB = Path(metrics.__file__).with_suffix(".pyi")

PUBLISHED = (
    *(f"polygraphy.backend.{each.name}" for each in iter_modules(backend.__path__)),
    "polygraphy.check",
    "polygraphy.comparator",
    "polygraphy.data",
    "polygraphy.debug",
    "polygraphy.diagnose",
    "polygraphy.doctor",
    "polygraphy.inspect",
    "polygraphy.mod",
    "polygraphy.multi_device",
    "polygraphy.plugin",
    "polygraphy.surgeon",
    "polygraphy.sweep",
)

_CALLED = re.compile(r'\b(?:(?:call_of|Call)\(\s*|call = )"([\w.]+)"')

TAKERS: dict[Any, Any] = {CreateConfigRTX: CreateConfig, CreateConfig: CommonSettings}
"""Whose arguments are taken as further ones by name."""


def targets() -> set[str]:
    """Return what the rows of all commands feed."""
    commands = map(load_command, COMMANDS)
    rows = {
        id(row): row for each in commands for group in each.groups for row in each.options_of(group)
    }
    return {target for row in rows.values() for target in row.feeds}


def names() -> list[str]:
    """Return the names that rows feed, and those that the command line calls."""
    called = (
        name
        for path in Path(cli.__file__).parent.rglob("*.py")
        for name in _CALLED.findall(path.read_text(encoding="utf-8"))
    )
    fed = (target.rpartition(".")[0] for target in targets())
    return sorted({*SIGNATURES, *fed, *called})


def signature_of(name: str) -> Signature:
    head, _, method = name.partition(".")
    known, alias = (
        (SIGNATURES[name].module, SIGNATURES[name].name) if name in SIGNATURES else ("", "")
    )
    for module in [known] if known else PUBLISHED:
        found = getattr(import_module(module), alias or head, None)
        if found is not None:
            called = getattr(found, method) if method else found
            return Signature(module, arguments_of(called), alias)
    raise AssertionError(f"{name} is not published")


def arguments_of(called: Any) -> dict[str, Any]:
    """Return the arguments with their defaults; further ones, which the builder's configurations
    hand on, as those who take them declare them.
    """
    listed: dict[str, Any] = {}
    for each in inspect.signature(called).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            listed.update(arguments_of(TAKERS[called]))
        elif each.kind is not each.VAR_POSITIONAL and each.name != "self":
            listed[each.name] = default(each)
    return listed


def default(parameter: inspect.Parameter) -> Any:
    try:
        return ast.literal_eval(repr(parameter.default))
    except (ValueError, SyntaxError):
        return ...


@pytest.mark.skipif(os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") != "1", reason="nothing is written")
def test_the_table_is_written() -> None:
    path = Path(signatures.__file__)
    head = path.read_text(encoding="utf-8").partition("SIGNATURES = ")[0]
    path.write_text(f"{head}SIGNATURES = {{\n{''.join(map(entry, names()))}}}\n", encoding="utf-8")


STUB_HEAD = '''"""What type checkers see of the classes made from the catalog; written by `make signatures`."""

from polygraphy.domain.compare.metric import (
    DetailedResult,
    MetricCompareFunc,
    MetricResult,
    MetricThreshold,
)
from polygraphy.domain.tensors.naming import PerOutput
from polygraphy.domain.tensors.pairing import FindOutput

__all__ = [
'''


def stub() -> str:
    """Return what type checkers are told of the classes of metrics."""
    text = STUB_HEAD + "".join(f'    "{name}",\n' for name in metrics.__all__) + "]\n"
    for row in METRICS.values():
        function, result, threshold = (getattr(metrics, name) for name in row.published_names)
        text += f"class {threshold.__name__}(MetricThreshold): ...\n"
        text += f"class {result.__name__}({result.__base__.__name__}):"
        if row.details:
            text += " ...\n"
        else:
            text += f"\n def __init__{inspect.signature(result.__init__)}: ..."
            text += f"\n @property\n def {row.field}(self) -> float | None: ...\n"
        text += f"class {function.__name__}(MetricCompareFunc):\n"
        text += f" def __init__{inspect.signature(function.__init__)}: ...\n"
    return format_str(text.replace("'", ""), mode=Mode(line_length=LINE_LENGTH, is_pyi=True))


@pytest.mark.skipif(os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") != "1", reason="nothing is written")
def test_the_stub_of_the_metrics_is_written() -> None:
    STUB.write_text(stub(), encoding="utf-8")


def test_type_checkers_see_the_classes_of_the_metrics() -> None:
    assert STUB.read_text(encoding="utf-8") == stub()


def entry(name: str) -> str:
    """Return the lines of a signature: nobody reads them but who looks for a difference."""
    found = signature_of(name)
    parts = [f"{argument!r}:\0{default!r}," for argument, default in found.arguments.items()]
    ending = f"}}, {found.name!r})," if found.name else "}),"
    text = f"{name!r}: Signature({found.module!r}, {{{' '.join(parts).rstrip(',')}{ending}"
    indents = {"initial_indent": " " * 4, "subsequent_indent": " " * 8}
    lines = wrap(text, LINE_LENGTH, break_long_words=False, break_on_hyphens=False, **indents)
    made = "\n".join(lines).replace("Ellipsis", "...")  # Together: a name and its default.
    return made.replace("\0", " ").replace("'", '"') + "\n"


@pytest.mark.parametrize("name", names())
def test_a_signature_is_that_of_the_published_name(name: str) -> None:
    assert SIGNATURES[name] == signature_of(name)


def test_every_row_feeds_an_argument() -> None:
    for target in targets():
        name, _, argument = target.rpartition(".")
        assert argument in SIGNATURES[name].arguments, target
