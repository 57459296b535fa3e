"""The lines that keep nodes in floating point, in the syntax of the quantizer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence


def exclusion(producer: str, nodes: Sequence[str]) -> str:
    """Return the line to paste, as the quantizer wants it.

    Args:
        producer: which quantizer made the model; empty if it is not known.
        nodes: the nodes that stay in floating point.
    """
    names = list(nodes)
    if producer == "nncf":
        return f"nncf.quantize(..., ignored_scope=nncf.IgnoredScope(names={names!r}))"
    if producer == "modelopt":
        patterns = [f"^{re.escape(name)}$" for name in names]
        return f"modelopt.onnx.quantization.quantize(..., nodes_to_exclude={patterns!r})"
    if producer == "olive":
        return f'"nodes_to_exclude": {json.dumps(names)} in the configuration of the pass'
    if producer == "genai":
        # Release 0.18 ignores the former name without a word, and earlier ones ignore this one.
        listed = ",".join(names)
        return (
            f"--extra_options nodes_to_exclude={listed} (of builders before 0.18:"
            f" int4_nodes_to_exclude={listed})"
        )
    call = _CALLS.get(producer)
    return f"{call}(..., nodes_to_exclude={names!r})" if call else f"nodes_to_exclude={names!r}"


_CALLS = {
    "static": "quantize_static",
    "dynamic": "quantize_dynamic",
    "nbits": "MatMulNBitsQuantizer",
}
"""The functions of ONNX Runtime by the name of their quantizer."""
