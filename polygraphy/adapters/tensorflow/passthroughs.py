"""Takes operations out of a `GraphDef` that hand on what they are given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_HANDING_ON = {"CheckNumerics", "Identity", "PreventGradient", "StopGradient"}


def without_passthroughs(definition: Any, kept: Collection[str]) -> Any:
    """Return a copy of a `GraphDef` in which a consumer of an operation that hands on its input
    reads that input.

    An operation stays if its name is among the `kept`, or if it, or another because of it, waits
    for an operation whose result it does not read.
    """
    waited_for = {name[1:] for node in definition.node for name in node.input if name[0] == "^"}
    sources = {
        node.name: node.input[0]
        for node in definition.node
        if node.op in _HANDING_ON
        and len(node.input) == 1
        and node.name not in waited_for
        and node.name not in kept
    }
    shorter = type(definition)()
    shorter.CopyFrom(definition)
    del shorter.node[:]
    for node in definition.node:
        if node.name in sources:
            continue
        copied = shorter.node.add()
        copied.CopyFrom(node)
        copied.input[:] = [_origin(name, sources) for name in node.input]
        # A request to be on the same device as an operation that is gone.
        places = copied.attr["_class"].list.s if "_class" in copied.attr else ()
        if any(place.decode().removeprefix("loc:@") in sources for place in places):
            del copied.attr["_class"]
    return shorter


def without_control_dependencies(definition: Any) -> Any:
    """Return a copy of a `GraphDef` in which no operation waits for one whose result it does not
    read. That changes nothing where no operation has a state or an effect.
    """
    shorter = type(definition)()
    shorter.CopyFrom(definition)
    for node in shorter.node:
        node.input[:] = [name for name in node.input if not name.startswith("^")]
    return shorter


def _origin(name: str, sources: dict[str, str]) -> str:
    """Follow an input, ``x`` or ``x:0``, to the first operation that stays."""
    while (operation := name.removesuffix(":0")) in sources:
        name = sources[operation]
    return name
