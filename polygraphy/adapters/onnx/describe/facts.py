"""What an ONNX model tells about itself without being run."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.describe.compute_dtypes import compute_dtypes
from polygraphy.adapters.onnx.describe.input_hints import LIMITING, input_hints
from polygraphy.adapters.onnx.describe.output_kinds import OutputKinds
from polygraphy.adapters.onnx.storage.wire import MalformedError, naming, operators
from polygraphy.domain.tensors.facts import DeferredFacts, Facts, ModelFacts
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


onnx = mod.lazy_import("onnx")

_RECORD = "pkg.torch.onnx.fx_node"
_FX_NODE = re.compile(r"%(\w+)\s*:")
_LARGEST_BYTES = 1 << 28
"""Models that are larger take too long to be read a second time for what they tell."""


def facts_of(model: ModelProto, source: Any = None) -> ModelFacts:
    """Return what a model tells, and where it is, if that is not the model itself."""
    kinds = OutputKinds(model)
    return ModelFacts(
        compute_dtypes(model),
        input_hints(model.graph),
        _sources(model.graph),
        bounded=kinds.bounded,
        ordered=kinds.ordered,
        source=model if source is None else source,
    )


def _sources(graph: GraphProto) -> dict[str, str]:
    """Return which tensor of a program each tensor was exported from, where the exporter of PyTorch
    recorded it. Of the nodes that one operation became, the last makes what the operation made.
    """
    makers: dict[str, str] = {}
    for node in graph.node:
        for entry in node.metadata_props:
            found = _FX_NODE.match(entry.value) if entry.key == _RECORD else None
            if found is not None and len(node.output) == 1:
                makers[found[1]] = node.output[0]
    return {tensor: source for source, tensor in makers.items()}


def find_facts(model: Any) -> Facts:
    """Return what is known of a model, its bytes or its path; nothing of one that cannot be
    read, or is too large to be read on the side. A file is read when its facts are asked for.
    """
    if isinstance(model, (str, Path)):
        path = Path(model)
        return DeferredFacts(partial(_found, path), partial(_may_limit_inputs, path))
    return _found(model)


def _found(model: Any) -> ModelFacts:
    source = model
    try:
        if isinstance(model, Path):
            if model.stat().st_size > _LARGEST_BYTES:
                return ModelFacts()
            model = onnx.load(str(model), load_external_data=False)
        elif isinstance(model, (bytes, bytearray)):
            if len(model) > _LARGEST_BYTES:
                return ModelFacts()
            model = onnx.load_model_from_string(bytes(model))
        return facts_of(model, source)
    except Exception as error:  # Facts are an extra: running the model says what is wrong.
        G_LOGGER.verbose(f"Nothing is known of the model: {error}")
        return ModelFacts()


def _may_limit_inputs(path: Path) -> bool:
    """Return whether a file has operators that limit the values of inputs, without the onnx
    package, which takes longer to import than most models take to run.
    """
    try:
        return any(op in LIMITING for op in operators(path, naming(LIMITING)))
    except (OSError, ValueError, MalformedError, IndexError):
        return True
