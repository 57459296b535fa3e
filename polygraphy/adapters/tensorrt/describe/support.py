"""Asks TensorRT's ONNX parser which nodes of a model it supports."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polygraphy.adapters.tensorrt.library.capabilities import (
    FEATURES,
    Capabilities,
    capabilities,
    capabilities_of,
)
from polygraphy.adapters.tensorrt.library.module import (
    capture_log,
    driver_version,
    get_trt_logger,
    gpu_names,
    is_rtx,
    trt,
)
from polygraphy.adapters.tensorrt.network.network import new_builder
from polygraphy.domain.checks.capability import Problem
from polygraphy.domain.environment import Section
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model

_MODULES = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
_ARTICLE = re.compile("^(an?|the) ")
_SETTING = "POLYGRAPHY_USE_TENSORRT_RTX"


def tensorrt_sections() -> list[Section]:
    """Return the sections of `doctor` about GPUs and each installed TensorRT module."""
    used = "tensorrt_rtx" if is_rtx() else "tensorrt"
    # The module in use is loaded first, because it can prevent the other from loading.
    names = sorted(filter(_is_installed, _MODULES), key=lambda name: name != used)
    return [_gpu_section(), *(_module_section(name, is_used=name == used) for name in names)]


def _is_installed(name: str) -> bool:
    """Return whether a package is installed."""
    try:
        return find_spec(name) is not None if name not in sys.modules else bool(sys.modules[name])
    except (ImportError, ValueError):
        return False


def _gpu_section() -> Section:
    """Return the section of `doctor` about the GPUs."""
    title, version = "GPUs", driver_version()
    if not version:
        return Section(title, (), ("None: the CUDA driver is missing, or found no device.",))
    gpus = tuple((f"GPU {index}", name) for index, name in enumerate(gpu_names()))
    remarks = () if gpus else ("The CUDA driver found no GPU.",)
    return Section(title, (("CUDA driver", f"up to CUDA {version}"), *gpus), remarks)


def _module_section(name: str, *, is_used: bool) -> Section:
    """Return the section of `doctor` about one TensorRT module."""
    state = "in use" if is_used else f"in use with {_SETTING}={int(name == 'tensorrt_rtx')}"
    try:
        caps = capabilities_of(import_module(name))
    except Exception as error:  # For example, a library that does not load.
        message = " ".join(f"{type(error).__name__}: {error}".split())
        beside = "" if is_used else f" together with the other library (run again, {state})"
        return Section(
            f"{_MODULES[name]} ({state})", (), (f"None: it does not load{beside}: {message}",)
        )
    return Section(f"{caps.name} {caps.version} ({state})", tuple(_feature_rows(caps)))


def _feature_rows(caps: Capabilities) -> list[tuple[str, str]]:
    """Return the name of each feature, and whether this version has it or which one does."""
    rows = {
        _ARTICLE.sub("", feature.label): "yes" if caps.has(name) else f"no: {feature.where}"
        for name, feature in FEATURES.items()
    }
    return sorted(rows.items(), key=lambda row: row[0].lower())


def support_problems(model: Any) -> list[Problem]:
    """Return the problems that TensorRT's parser reports for a model."""
    untyped = _inputs_without_type(model)
    if untyped:
        listed = ", ".join(map(repr, untyped))
        return [Problem(f"The data types of its inputs {listed} are unknown.")]
    with _open_parser(model) as (parser, content, path):
        parsed = parser.parse(content, path)
        problems = problems_of(parser)
    if not parsed and not problems:
        problems = [Problem("The parser rejected the model without a reason.")]
    return problems if not parsed else []


def group_by_support(model: Any) -> list[tuple[list[int], bool]]:
    """Return groups of node indices, each with whether the parser supports it."""
    if _inputs_without_type(model):
        return []
    with _open_parser(model) as (parser, content, path):
        if not capabilities().has("parser_subgraph_query"):
            _, listed = parser.supports_model(content, path)
            return [([int(node) for node in nodes], bool(ok)) for nodes, ok in listed]
        parser.supports_model_v2(content, path)
        return [
            (
                [int(node) for node in parser.get_subgraph_nodes(index)],
                bool(parser.is_subgraph_supported(index)),
            )
            for index in range(parser.num_subgraphs)
        ]


@contextmanager
def _open_parser(model: Any) -> Iterator[tuple[Any, bytes, str]]:
    """Yield a new parser, a model's bytes without large weights, and the path of these.
    The large weights are relative to that path.
    """
    network = _builder().create_network(_network_flags())
    with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
        path = Path(folder, "model.onnx")
        with G_LOGGER.verbosity(G_LOGGER.WARNING):
            save_model(model, str(path))
        # The parser also returns its messages: in the log, they would look like our errors.
        with capture_log(), G_LOGGER.verbosity(G_LOGGER.CRITICAL):
            yield trt.OnnxParser(network, get_trt_logger()), path.read_bytes(), str(path)


@cache
def _builder() -> Any:
    """Return the builder of this process, because creating the first one takes seconds."""
    return new_builder()


def problems_of(parser: Any) -> list[Problem]:
    """Return the errors that a parser reports."""
    return [_parser_problem(parser.get_error(index)) for index in range(parser.num_errors)]


def _parser_problem(error: Any) -> Problem:
    """Return one error of a parser with its node and its reason."""
    stack = error.local_function_stack() if hasattr(error, "local_function_stack") else ()
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    code = getattr(error.code(), "name", error.code())
    node = int(error.node())
    where = f"In node {node}" if node >= 0 else "In the model"
    if name:
        where += f" with name: {name}"
    if operator:
        where += f"{' and' if name else ' with'} operator: {operator}"
    return Problem(
        reason=f"{where} ({error.func()}): {code}: {error.desc()}",
        node=node if node >= 0 and not stack else None,
        operator=operator,
        name=name,
        stack=tuple(stack),
    )


def _inputs_without_type(model: Any) -> list[str]:
    """Return the graph inputs of unknown data type, which make the parser reject a model."""
    return [value.name for value in model.graph.input if not _is_typed(value.type)]


def _is_typed(type_: Any) -> bool:
    """Return whether the type of a tensor is known."""
    kind = type_.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or bool(type_.tensor_type.elem_type))


def _network_flags() -> int:
    """Return the flags for a new network: explicit batch, if TensorRT also has an implicit one."""
    if not capabilities().has("implicit_batch"):
        return 0
    flag: int = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    return flag
