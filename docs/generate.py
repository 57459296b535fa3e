"""Pages written from declarations: docstrings, options, formats, the schema of reports."""

from __future__ import annotations

import json
import re
from importlib import import_module
from inspect import getdoc, isclass
from pathlib import Path
from typing import Any

from polygraphy.cli.help import describe_all
from polygraphy.cli.reference import pages_of
from polygraphy.domain.catalog.formats import FORMATS
from polygraphy.domain.catalog.reports import REPORTS

_KEYWORDS = re.compile(r"^<!-- search: (.+) -->$", re.M)

MODULES = (
    "polygraphy.comparator",
    "polygraphy.backend.base",
    "polygraphy.backend.common",
    "polygraphy.backend.onnx",
    "polygraphy.backend.onnxrt",
    "polygraphy.backend.openvino",
    "polygraphy.backend.pluginref",
    "polygraphy.backend.pyt",
    "polygraphy.backend.tensorrt_rtx",
    "polygraphy.backend.tf",
    "polygraphy.backend.trt",
    "polygraphy.diagnose",
    "polygraphy.assertions",
    "polygraphy.testing",
    "polygraphy.check",
    "polygraphy.common",
    "polygraphy.config",
    "polygraphy.constants",
    "polygraphy.cuda",
    "polygraphy.data",
    "polygraphy.datatype",
    "polygraphy.debug",
    "polygraphy.doctor",
    "polygraphy.exception",
    "polygraphy.extension",
    "polygraphy.func",
    "polygraphy.inspect",
    "polygraphy.json",
    "polygraphy.logger",
    "polygraphy.mod",
    "polygraphy.multi_device",
    "polygraphy.plugin",
    "polygraphy.program",
    "polygraphy.surgeon",
    "polygraphy.sweep",
    "polygraphy.util",
)
"""The modules whose names are published; `tests/published` adds their parts."""

_ELSEWHERE = {
    "polygraphy.common": "DataTypeConversionException, PolygraphyException,"
    " PolygraphyInternalException"
}
"""Names of modules that stand on the page of another: of `polygraphy.exception`."""

PAGES = {
    "Reference": ["generated/verdict-document", "generated/file-formats", "generated/api"],
}
"""The pages, without their extension, by the heading of the index below which they stand."""


def write(folder: Path) -> None:
    """Write the pages into `generated`."""
    out = folder / "generated"
    (out / "commands").mkdir(parents=True, exist_ok=True)
    schema = json.loads((folder / "report.schema.json").read_text(encoding="utf-8"))
    pages = {"verdict-document": document(schema), "file-formats": formats(), "api": api()}
    pages |= {name: module(name) for name in MODULES}
    commands = pages_of(list(describe_all().values()))
    pages |= {f"commands/{name}": text for name, text in commands.items()}
    files = {f"{name}.md": text for name, text in pages.items()}
    files["scorer.js"] = scorer(folder)
    for name, text in files.items():
        path = out / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx goes by times.
            path.write_text(text, encoding="utf-8")


def keywords_in(page: str) -> list[str]:
    """Return the words of the comment below a heading, for which the search shows the page."""
    comment = _KEYWORDS.search(page)
    return comment[1].split() if comment else []


def scorer(folder: Path) -> str:
    """Return the script that orders search results, with the keywords of each page."""
    pages = (*folder.glob("*.md"), *folder.glob("how-to/*.md"))
    words = {
        page.relative_to(folder)
        .with_suffix("")
        .as_posix(): [word.lower() for word in keywords_in(page.read_text(encoding="utf-8"))]
        for page in sorted(pages)
    }
    script = (folder / "static" / "scorer.js").read_text(encoding="utf-8")
    return f"const KEYWORDS = {json.dumps(words)};\n{script}"


def api() -> str:
    """Return the page that lists the published modules."""
    rows = []
    for name in MODULES:
        said = (getdoc(import_module(name)) or "").partition("\n")[0]
        rows.append(f"| [`{name}`]({name}.md) | {said} |")
    tree = "\n".join(MODULES)
    return f"""# Python API

Scripts can import these modules. All other modules can change between versions.

| module | contents |
| --- | --- |
{chr(10).join(rows)}

```{{toctree}}
:hidden:

{tree}
```
"""


EXAMPLES = {
    "polygraphy.comparator": """\
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, CompareFunc

runners = [
    OnnxrtRunner(SessionFromOnnx("model.onnx")),
    OnnxReferenceRunner(OnnxFromPath("model.onnx")),
]
results = Comparator.run(runners)
judge = CompareFunc.simple(rtol="auto", atol="auto")
assert Comparator.compare_accuracy(results, compare_func=judge)""",
    "polygraphy.backend.onnxrt": """\
import numpy as np
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

with OnnxrtRunner(SessionFromOnnx("model.onnx")) as runner:
    outputs = runner.infer({"image": np.zeros((1, 1, 8, 8), np.float32)})""",
    "polygraphy.backend.onnx": """\
from polygraphy.backend.onnx import OnnxFromPath, SaveOnnx

load_model = OnnxFromPath("model.onnx")
SaveOnnx(load_model, "copy.onnx")()""",
    "polygraphy.diagnose": """\
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.diagnose import diagnose

diagnosis = diagnose("model.onnx", [OnnxrtParty()], reference="model.onnx")
print(diagnosis)""",
    "polygraphy.assertions": """\
from polygraphy.assertions import assert_outputs_match

def test_backends_agree():
    assert_outputs_match("model.onnx", backends=["onnxrt", "onnx"])""",
}
"""Examples by the name of a module; the tests run them beside a model with the input `image`."""


def module(name: str) -> str:
    """Return the page of a published module, with an example if it has one."""
    lines = [f".. automodule:: {name}"]
    if name in _ORDERED:
        names = sorted(
            import_module(name).__all__, key=_rank
        )  # `sorted` keeps the order of equals.
        lines += [line for each in names for line in _directive(name, each)]
    else:
        lines.append("   :members:")
    if name in _ELSEWHERE:
        lines.append(f"   :exclude-members: {_ELSEWHERE[name]}")
    example = ["```python", EXAMPLES[name], "```", ""] if name in EXAMPLES else []
    return "\n".join((f"# {name}", "", *example, "```{eval-rst}", *lines, "```", ""))


_ORDERED = (
    "polygraphy.comparator",
    "polygraphy.backend.onnx",
    "polygraphy.backend.onnxrt",
    "polygraphy.backend.openvino",
    "polygraphy.backend.pyt",
    "polygraphy.backend.tf",
    "polygraphy.backend.trt",
)
"""Modules whose pages start with what most programs use."""


def _rank(name: str) -> int:
    """Return the place of a name on the page of a module of `_ORDERED`: runners and comparisons,
    loaders, everything else.
    """
    if name in ("Comparator", "CompareFunc") or name.endswith("Runner"):
        return 0
    return 1 if name[0].isupper() and ("From" in name or name.startswith("Save")) else 2


def _directive(module: str, name: str) -> list[str]:
    """Return the lines that document a class or a function of a module."""
    if isclass(getattr(import_module(module), name)):
        return ["", f".. autoclass:: {module}.{name}", "   :members:"]
    return ["", f".. autofunction:: {module}.{name}"]


def formats() -> str:
    """Return the page of the files that commands read and write."""
    models = "\n".join(
        f"| `{each.name}` | {each.technology or 'none'} | {_code(each.extensions)} |"
        for each in FORMATS.values()
    )
    reports = "\n".join(f"| `{suffix}` | {name} |" for suffix, name in REPORTS.items())
    return f"""# File formats

## Models

Each format has a name for `--model-type`, and the file extensions that identify it.

| format | read by | extensions |
| --- | --- | --- |
{models}

## Reports

The extension of the path in `--report PATH` selects the format.

| extension | format |
| --- | --- |
{reports}
"""


def document(schema: dict[str, Any]) -> str:
    """Return the page of the verdict document, from its schema."""
    parts = [
        "# The verdict document",
        f"{schema['description']} The schema is [report.schema.json](../report.schema.json)."
        " [Reports](../reports.md) has an overview.",
        _table(schema),
    ]
    for name, part in schema["$defs"].items():
        parts += [f"## {name}", part.get("description", "")]
        parts += [_table(part)] if "properties" in part else [f"Type: {_type(part)}."]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(part: dict[str, Any]) -> str:
    required = part.get("required", ())
    rows = [
        f"| `{key}` | {_type(value)} | {'yes' if key in required else 'no'} |"
        f" {_escaped(value.get('description', ''))} |"
        for key, value in part["properties"].items()
    ]
    return "\n".join(("| key | type | required | contents |", "| --- | --- | --- | --- |", *rows))


def _type(part: dict[str, Any]) -> str:
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    if "enum" in part:
        return ", ".join(f"`{json.dumps(each)}`" for each in part["enum"])
    for several in ("oneOf", "anyOf"):
        if several in part:
            return " or ".join(map(_type, part[several]))
    kind = part.get("type", "any")
    words = " or ".join([kind] if isinstance(kind, str) else kind)
    inner = part.get("items") or part.get("additionalProperties")
    return f"{words} of {_type(inner)}" if isinstance(inner, dict) and inner else words


def _code(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
