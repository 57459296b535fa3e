"""The lines that keep nodes in floating point, in the syntax of the quantizer."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence


def exclusion(producer: str, nodes: Sequence[str], kinds: Collection[str]) -> str:
    """Return the line to paste; nothing tries it in the quantizer, and the text around it says so.

    Args:
        producer: which quantizer made the model; empty if it is not known.
        nodes: the nodes that stay in floating point.
        kinds: the kinds of sites of the model.
    """
    if producer == "nncf":
        return f"ignored_scope=nncf.IgnoredScope(names={list(nodes)!r})"
    if producer == "modelopt":
        patterns = [f"^{re.escape(name)}$" for name in nodes]
        return f"nodes_to_exclude={patterns!r}"
    return f"nodes_to_exclude={list(nodes)!r}"
