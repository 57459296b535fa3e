"""The commands that a diagnosis prints: each is data, which the command line writes and checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol

import numpy as np

from polygraphy.domain.diagnosis.two_models import outer_tensors
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.ports import command_line

Options = Mapping[str, Any]
"""Values of options, by the names of their rows."""

_AUTO = {"rtol": "auto", "atol": "auto"}
"""Both tolerances are the rounding limit."""
_WRITABLE = frozenset({"int", "ints", "float", "floats", "string", "strings"})
"""Kinds of attributes that a command line can give."""
_CASTS = {"fp16": "fp_to_fp16", "bf16": "to_bf16"}
"""Options that convert a model to half precision, by the type."""


class Backend(Protocol):
    """A backend and its options."""

    name: str
    backend: str
    options: Options


def run_command(
    path: str,
    backends: Iterable[tuple[str, str, Options]],
    data: Options,
    *,
    atol: float | None = None,
    is_auto: bool = False,
) -> str:
    """Return the command that runs a model in some backends and compares their outputs.

    Args:
        path: the model.
        backends: names of runners, their backends, and the options of these.
        data: options about the input data.
        atol: the absolute tolerance.
        is_auto: whether both tolerances are the rounding limit.
    """
    chosen = _backend_options("run", "runners", backends)
    return command_line(
        "run", {"model_file": path}, *chosen, data, {"atol": atol}, _AUTO if is_auto else {}
    )


def diagnose_command(path: str, backends: Iterable[Backend], *options: Options) -> str:
    """Return the command that diagnoses a model in some backends."""
    named = ((backend.name, backend.backend, backend.options) for backend in backends)
    chosen = _backend_options("diagnose", "parties", named)
    return command_line("diagnose", {"path": path}, *chosen, *options)


def _backend_options(
    command: str, row: str, backends: Iterable[tuple[str, str, Options]]
) -> list[Options]:
    """Return the options that choose backends.
    If one backend has a name, all get a quoted row, because an option outside the quotes would
    apply to every runner of its backend.
    """
    backends = list(backends)
    if all(name == backend for name, backend, _ in backends):
        return [{row: (backend,), **options} for _, backend, options in backends]
    lines = (command_line(command, {row: (name,), **options}) for _, name, options in backends)
    flags = (line.removeprefix(f"polygraphy {command} ") for line in lines)
    return [{row: (f"runner:{name}={flag}",)} for (name, _, _), flag in zip(backends, flags)]


def report_command(path: str, backends: Iterable[Backend], data: Options) -> str:
    """Return the command that saves a reproducer of the incorrect or refused node and the text of a
    bug report.
    """
    files = {"save_culprit": output_path(path, "_culprit"), "issue": output_path(path, "_issue.md")}
    return diagnose_command(path, backends, data, files)


def sanitize_command(path: str, options: Options) -> str:
    """Return the `sanitize` command that infers the types of a model again,
    with additional options.
    """
    output = {"output": path_of_fix(path)}
    return command_line("surgeon sanitize", {"model_file": path}, options, output)


def convert_command(path: str, dtype: str, nodes: Iterable[str]) -> str:
    """Return the command that converts a model to half precision, except for some nodes."""
    output = {"output": output_path(path, f"_{dtype}.onnx")}
    return command_line("convert", {"model_file": path}, _cast_options(dtype, nodes), output)


def cast_words(dtype: str, nodes: Iterable[str]) -> str:
    """Return the options that convert any model to half precision, as words of a command line."""
    line = command_line("convert", {"model_file": "MODEL"}, _cast_options(dtype, nodes))
    return line.removeprefix("polygraphy convert MODEL ")


def _cast_options(dtype: str, nodes: Iterable[str]) -> dict[str, Any]:
    """Return the options that convert a model to half precision, except for some nodes."""
    return {_CASTS[dtype]: True, "cast_keep_nodes": _put_dashes_last(nodes)}


def copy_command(path: str, reference: str, nodes: Iterable[str]) -> str:
    """Return the command that copies nodes, with their weights, from a reference."""
    return command_line(
        "surgeon copy",
        {"model_file": path, "reference": reference, "nodes": _put_dashes_last(nodes)},
        {"output": path_of_fix(path)},
    )


def insert_commands(path: str, side: Graph, changed: Sequence[Variant]) -> str:
    """Return the commands, in order, that restore changed nodes of a model.
    The result is empty if no command can.
    """
    lines, before = [], path
    for number, variant in enumerate(_applicable_changes(side, changed), 1):
        if variant.node in side.nodes or variant.weights:
            return ""
        after = path_of_fix(path, number)
        options = _insert_options(variant.node)
        line = options and command_line(
            "surgeon insert", {"model_file": before}, options, {"output": after}
        )
        if not line:
            return ""
        lines.append(line)
        before = after
    return " && ".join(lines) if len(lines) == len(changed) else ""


def _applicable_changes(side: Graph, changed: Sequence[Variant]) -> Iterator[Variant]:
    """Yield changed nodes in an order in which `surgeon insert` can apply them:
    each must read only tensors that the model still has."""
    nodes, waiting = list(side.operations.values()), list(changed)
    while waiting:
        live_tensors = _live_tensors(side, nodes)
        ready = [change for change in waiting if live_tensors.issuperset(change.node.inputs)]
        for chosen in ready:
            after = [chosen.node if _makes_same(node, chosen.node) else node for node in nodes]
            remaining_tensors = _live_tensors(side, after)
            remaining = [change for change in waiting if change is not chosen]
            if chosen is ready[-1] or all(
                remaining_tensors.issuperset(change.node.inputs) for change in remaining
            ):
                yield chosen
                nodes, waiting = after, remaining
                break
        else:
            return


def _makes_same(node: Node, changed: Node) -> bool:
    """Return whether two nodes compute a tensor of the same name."""
    return bool(set(filter(None, node.outputs)) & set(changed.outputs))


def _live_tensors(side: Graph, nodes: Sequence[Node]) -> set[str]:
    """Return the inputs of a model, and the tensors that its outputs depend on."""
    makers = {name: node for node in nodes for name in filter(None, node.outputs)}
    live_names = {"", *(tensor.name for tensor in side.inputs)}
    waiting = [tensor.name for tensor in side.outputs]
    while waiting:
        name = waiting.pop()
        if name in live_names:
            continue
        live_names.add(name)
        if name in makers:
            live_names.update(makers[name].outputs)
            waiting += [*makers[name].inputs, *outer_tensors(makers[name])]
    return live_names


def output_path(path: str, ending: str) -> str:
    """Return a path in the current folder for a file derived from a model,
    with an ending added to its name.
    """
    name = f"{PurePath(path).stem}{ending}"
    return f"./{name}" if name.startswith("-") else name


def path_of_fix(path: str, number: int = 1) -> str:
    """Return the path of the numbered copy of a model without its fault."""
    return output_path(path, f"_fixed{number if number > 1 else ''}.onnx")


def _put_dashes_last(names: Iterable[str]) -> tuple[str, ...]:
    """Return unique names, with those that start with a dash at the end,
    where a command line can take them.
    """
    return tuple(sorted(dict.fromkeys(names), key=lambda name: name.startswith("-")))


def _insert_options(node: Node) -> dict[str, Any]:
    """Return the options of ``surgeon insert`` that create a node; empty if there are none."""
    names = list(node.inputs)
    while names and not names[-1]:
        names.pop()
    is_writable = all(
        attribute.kind in _WRITABLE and attribute.value not in ((), "")
        for attribute in node.attributes
    )
    if node.domain or not is_writable or not all(names) or not all(node.outputs) or not names:
        return {}
    attributes = {
        attribute.name: _attribute(attribute.kind, attribute.value) for attribute in node.attributes
    }
    return {
        "op": node.op,
        "name": node.name or None,
        "inputs": tuple(names),
        "outputs": tuple(node.outputs),
        "attrs": attributes,
    }


def _attribute(kind: str, value: Any) -> Any:
    """Return the value of an attribute; a float is rounded to the digits that float32 has."""
    if isinstance(value, tuple):
        return [_attribute(kind[:-1], item) for item in value]
    return float(str(np.float32(value))) if kind == "float" else value
