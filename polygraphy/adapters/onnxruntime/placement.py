"""The execution provider of each node of a model, as ONNX Runtime chooses it for a session.

From 1.24 on, a session reports that. Older ones write it to their log, and all versions write the
reasons for a fallback there.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from polygraphy import mod
from polygraphy.adapters.onnx_common.loadable import loadable_form
from polygraphy.adapters.onnxruntime.providers import (
    Provider,
    match_providers,
    translate_errors,
)
from polygraphy.adapters.onnxruntime.starting import names_of
from polygraphy.domain.checks.capability import NodePlacement, Placements

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

onnxrt = mod.lazy_import("onnxruntime>=1.10.0")

T = TypeVar("T")

_RECORDS = "session.record_ep_graph_assignment_info"
_REPORT = "get_provider_graph_assignment_info"
_PREFIX = "polygraphy_node_"
_NODE = re.compile(rf"{_PREFIX}(\d+)")
_PLACED = re.compile(r"placed on \[(\w+)\]")
_NO_KERNEL = re.compile(rf"(\w+) kernel not found in registries for .*{_PREFIX}(\d+)")
_FORCED = re.compile(rf"Force fallback to CPU execution for node: {_PREFIX}(\d+)")
_VERBOSE, _INFO, _FATAL = 0, 1, 4


def place_nodes(
    model: Any,
    providers: Sequence[Provider],
    provider_libraries: Mapping[str, str] | None = None,
) -> Placements:
    """Return the provider of each node; see the port."""
    from polygraphy.adapters.onnxruntime.session import load_session, session_options

    matched = match_providers(list(providers), dict(provider_libraries or {}))
    # Without optimizations, every executed node is a node of the model.
    options = session_options("DISABLE_ALL")
    options.log_severity_level = _VERBOSE
    record_placements(options)
    nodes = model.graph.node
    names = [node.name if node.HasField("name") else None for node in nodes]
    try:
        for position, node in enumerate(nodes):
            node.name = f"{_PREFIX}{position}"  # Names can be missing or duplicated.
        with loadable_form(model) as source, translate_errors("load"):
            session, log = _capture_log(lambda: load_session(source, options, matched))
    finally:
        for node, name in zip(nodes, names):
            if name is None:
                node.ClearField("name")
            else:
                node.name = name
    placed = _providers_of_session(session) or _providers_of_log(log, session, len(nodes))
    reasons = _reasons(log)
    node_placements = [
        NodePlacement(
            position, node.op_type, node.name, placed[position], reasons.get(position, "")
        )
        for position, node in enumerate(nodes)
        if position in placed
    ]
    return Placements(len(nodes), names_of(matched)[0], tuple(node_placements))


def record_placements(options: SessionOptions) -> None:
    """Set the options with which a session records the provider of each node,
    if this ONNX Runtime can."""
    options.add_session_config_entry(_RECORDS, "1")


def placements_of(session: InferenceSession, wanted: str) -> Placements:
    """Return the provider of each node of a session's graph.
    The result is empty if the session did not record it.

    Args:
        session: the session, made with options for `record_placements`.
        wanted: the provider with the highest priority.
    """
    node_placements = [
        NodePlacement(None, node.op_type, node.name, part.ep_name)
        for part in _parts(session)
        for node in part.get_nodes()
    ]
    return Placements(len(node_placements), wanted, tuple(node_placements))


def _parts(session: InferenceSession) -> Sequence[Any]:
    """Return the parts of the graph that a session assigned to providers."""
    report: Callable[[], Sequence[Any]] | None = getattr(session, _REPORT, None)
    if report is None:
        return ()
    try:
        return report()
    # The assignment was not recorded, because the session is older or has other options.
    except Exception:
        return ()


def _providers_of_session(session: InferenceSession) -> dict[int, str]:
    """Return the provider of each node by position, as a session reports it."""
    return {
        int(match[1]): part.ep_name
        for part in _parts(session)
        for node in part.get_nodes()
        if (match := _NODE.search(node.name)) is not None
    }


def _providers_of_log(log: str, session: InferenceSession, count: int) -> dict[int, str]:
    """Return the provider of each node by position, as ONNX Runtime's log lists it."""
    placed: dict[int, str] = {}
    compiling = provider = ""
    for line in log.splitlines():
        if (match := _PLACED.search(line)) is not None:
            provider = match[1]
            if "All nodes" in line:
                return dict.fromkeys(range(count), provider)
        elif provider and "AssignedToAnEp" in line:
            if (match := _NODE.search(line)) is not None:
                placed[int(match[1])] = provider
            elif f"{provider}_" in line:
                compiling = compiling or provider
    remaining_compiling = compiling or (session.get_providers()[0] if placed else "")
    return (
        {position: placed.get(position, remaining_compiling) for position in range(count)}
        if remaining_compiling
        else {}
    )


def _reasons(log: str) -> dict[int, str]:
    """Return, by position, why nodes do not run on the requested provider."""
    reasons: dict[int, str] = {}
    for match in _NO_KERNEL.finditer(log):
        reasons[int(match[2])] = f"{match[1]} has no kernel for this operator and these types"
    for match in _FORCED.finditer(log):
        reasons[int(match[1])] = (
            "ONNX Runtime expects the CPU to be faster, because the node computes shapes"
        )
    return reasons


def _capture_log(call: Callable[[], T]) -> tuple[T, str]:
    """Return the result of a call, and what the C++ library wrote to standard error."""
    onnxrt.set_default_logger_severity(_INFO)
    try:
        dup = os.dup(2)
    except OSError:  # Standard error was closed.
        return call(), ""
    try:
        with tempfile.TemporaryFile() as stream:
            os.dup2(stream.fileno(), 2)
            try:
                result = call()
            finally:
                os.dup2(dup, 2)
            stream.seek(0)
            return result, stream.read().decode("utf-8", "replace")
    finally:
        os.close(dup)
        onnxrt.set_default_logger_severity(_FATAL)
