"""Command lines that undo what is wrong with a model."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.two_models import Suspect
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.model.description import Node

_WRITABLE = frozenset({"int", "ints", "float", "floats", "string", "strings"})
"""Kinds of attributes that a command line can give."""


def made_of(path: str, ending: str) -> str:
    """Return where something that is made of a model is saved: in the current folder."""
    name = f"{PurePath(path).stem}{ending}"
    return f"./{name}" if _begins_with_a_dash(name) else name


def fixed_path(path: str, number: int = 1) -> str:
    """Return where a model without its fault is saved."""
    return made_of(path, f"_fixed{number if number > 1 else ''}.onnx")


def keeping(nodes: Iterable[str]) -> list[str]:
    """Return the option that keeps nodes in float32 where a model is converted; none for none."""
    return _given("--cast-keep-nodes", sorted(nodes, key=_begins_with_a_dash))


def copying(path: str, reference: str, nodes: Iterable[str]) -> str:
    """Return the command line that copies nodes, with their weights, from a reference."""
    names = dict.fromkeys(nodes)
    words = ["polygraphy", "surgeon", "copy", path, "--reference", reference]
    ordered = sorted(names, key=_begins_with_a_dash)
    return shlex.join([*words, *_given("--nodes", ordered), "-o", fixed_path(path)])


def _begins_with_a_dash(name: str) -> bool:
    return name.startswith("-")


def _given(flag: str, values: Sequence[str]) -> list[str]:
    """Return an option with values; those that begin with a dash come last, and after ``=``."""
    plain = [value for value in values if not _begins_with_a_dash(value)]
    dashed = [f"{flag}={value}" for value in values if _begins_with_a_dash(value)]
    return [*([flag, *plain] if plain else []), *dashed]


def reporting(path: str, parties: Iterable[str], data: Iterable[str]) -> str:
    """Return the command line that saves what a party computes wrongly, or refuses, and the text of
    a bug report: nothing else is known to help.
    """
    words = ["polygraphy", "diagnose", path, *(f"--{name}" for name in parties), *data]
    folder, text = made_of(path, "_culprit"), made_of(path, "_issue.md")
    return shlex.join([*words, "--save-culprit", folder, "--issue", text])


def taking(suspect: Suspect) -> str:
    """Return what makes a difference go away, in words."""
    if suspect.weights:
        names = ", ".join(repr(name) for name, _ in suspect.weights)
        return f"Take {names} from the reference."
    return f"Do as the reference does: {suspect.what}."


def undoing(path: str, side: Side, changed: Sequence[Variant]) -> str | None:
    """Return the command lines, one after another, that put nodes as they were in place of those of
    a model; None where a command line cannot say that, as of weights with other elements.
    """
    known = {"", *(one.name for one in side.graph.inputs), *side.weights, *side.producer}
    lines, before = [], path
    for number, variant in enumerate(changed, 1):
        words = _inserted(variant.node)
        is_same = variant.node in side.nodes or bool(variant.weights)
        if words is None or is_same or not known.issuperset(variant.node.inputs):
            return None
        after = fixed_path(path, number)
        lines.append(shlex.join(["polygraphy", "surgeon", "insert", before, *words, "-o", after]))
        before = after
    return " && ".join(lines) or None


def _inserted(node: Node) -> list[str] | None:
    """Return the options of ``surgeon insert`` that make a node."""
    names = list(node.inputs)
    while names and not names[-1]:
        names.pop()
    outputs = list(node.outputs)
    is_said = all(one.kind in _WRITABLE and one.value not in ((), "") for one in node.attributes)
    if node.domain or not is_said or not all(names) or not all(outputs) or not names:
        return None
    if any(one != sorted(one, key=_begins_with_a_dash) for one in (names, outputs)):
        return None  # Behind one with a dash there can be none without.
    words = ["--op", node.op, *(_given("--name", [node.name]) if node.name else [])]
    words += [*_given("--inputs", names), *_given("--outputs", outputs)]
    given = [f"{one.name}={_text(one.kind, one.value)}" for one in node.attributes]
    return [*words, *(["--attrs", *given] if given else [])]


def _text(kind: str, value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(_text(kind[:-1], one) for one in value)}]"
    return str(np.float32(value)) if kind == "float" else str(value)
