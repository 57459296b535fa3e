"""TensorRT as a backend of a diagnosis: builds a model in half precision, with some nodes in
float32.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx_common.inference import infer_shapes
from polygraphy.adapters.tensorrt.describe.describe_engine import tensorrt_tf32
from polygraphy.adapters.tensorrt.engine.build import EngineFromNetwork
from polygraphy.adapters.tensorrt.engine.config import CreateConfig
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import setting_of
from polygraphy.adapters.tensorrt.network.network_edits import SetLayerPrecisions
from polygraphy.adapters.tensorrt.network.onnx_network import (
    NetworkFromOnnxModel,
    NetworkFromOnnxPath,
)
from polygraphy.adapters.tensorrt.precision.casting import Q_OPS, is_quantized
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.domain.catalog.compute import ComputePrecision
from polygraphy.domain.data.loading import fit_feed
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.profile import Profile as DomainProfile
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import computes_in_tf32


@mod.export()
class TrtParty:
    """TensorRT; implements the ports `SuspectedParty` and `LoweringParty`."""

    name = "trt"
    passes: tuple[str, ...] = ()
    rewrites = False
    """Its rewrites can neither be seen nor be switched off."""
    levels: tuple[str, ...] = ()
    settings: Mapping[str, Any] = MappingProxyType({})
    survives_fork = False
    uses_device = True

    def __init__(
        self,
        fp16: bool | None = None,
        bf16: bool | None = None,
        tf32: bool | None = None,
        memory_pool_limits: Mapping[str, int] | None = None,
        builder_optimization_level: int | None = None,
        name: str | None = None,
        int8: bool | None = None,
    ) -> None:
        """Set the options of engines (see `CreateConfig`), and the name of the backend in a
        diagnosis. With `int8`, models with Q/DQ nodes are built; there is no calibration.
        """
        self.name = name or type(self).name
        self._half = "fp16" if fp16 else "bf16" if bf16 else None
        self._settings: dict[str, Any] = {
            "tf32": tf32,
            "memory_pool_limits": memory_pool_limits,
            "builder_optimization_level": builder_optimization_level,
            "int8": int8,
        }
        self._timings = io.BytesIO()
        self._layer_names: dict[str, str] = {}

    @property
    def backend(self) -> str:
        """Return the flag of its kind, without the dashes."""
        return type(self).name

    @property
    def lowers_to(self) -> str | None:
        """Return the precision below float32 in which this backend computes; None for float32."""
        precision = self.compute_precision
        return self._half or (None if precision is None else precision.dtype)

    @property
    def compute_precision(self) -> ComputePrecision | None:
        """Return which operators may be computed in TF32; None if none are."""
        if self._half or not self._settings["tf32"] or not computes_in_tf32():
            return None
        return tensorrt_tf32()

    @property
    def options(self) -> dict[str, Any]:
        """Return the options that build engines; see the port."""
        how = self._settings
        options = {
            **({self._half: True} if self._half else {}),
            "tf32": how["tf32"],
            "int8": how["int8"],
            "pool_limit": how["memory_pool_limits"],
            "builder_optimization_level": how["builder_optimization_level"],
        }
        return {name: value for name, value in options.items() if value is not None}

    def in_float32(self) -> TrtParty:
        """Return the same backend, computing in float32."""
        return TrtParty(**{**self._settings, "tf32": None}, name=self.name)

    def check_graph(self, graph: Graph) -> None:
        """Raise UsageError if int8 was chosen for a model that is not quantized."""
        if self._settings["int8"] and not any(
            node.op in Q_OPS for subgraph in graph.walk() for node in subgraph.nodes
        ):
            raise UsageError(
                f"{setting_of('int8')}: the model has no Q/DQ nodes, and this command does not"
                " calibrate.",
                hint="Compare the calibrated engine with: polygraphy run MODEL --trt --int8"
                " --onnxrt --mark-all.",
            )

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function that computes the outputs.
        The engine is built for the shapes of the first data.
        """
        result = evaluate(model)
        if without and not isinstance(result, str):
            self._layer_names = _different_layer_names(result)
        if not isinstance(result, str):
            result = add_output_types(result)
        lowered = {} if self._half is None else {self._half: True}
        settings = {**self._settings, **({"tf32": None} if plain else lowered)}
        # Without Q/DQ nodes, such as in a part of the model, int8 would need calibration.
        if settings["int8"] and not isinstance(result, str) and not is_quantized(result):
            settings["int8"] = None
        return _BuiltModel(result, settings, self._names_of_layers(without), self._timings)

    def runtime_graph(self, model: Any, *, without: Collection[str] = ()) -> None:
        """Return None, because engines do not show their graph."""

    def remedy(self, *, plain: bool, without: Collection[str]) -> dict[str, Any]:
        """Return the options that run a model in float32, or some of its nodes."""
        if plain or not without:
            return self.in_float32().options
        layers = dict.fromkeys(self._names_of_layers(without), "float32")
        obey = {"precision_constraints": "obey"} if _has_layer_precisions() else {}
        return {**self.options, "layer_precisions": layers, **obey}

    def _names_of_layers(self, nodes: Collection[str]) -> list[str]:
        """Return the names of the layers that nodes become, for `SetLayerPrecisions`."""
        return [self._layer_names.get(name, name) for name in nodes]


def _different_layer_names(model: Any) -> dict[str, str]:
    """Return the names of layers by node, for nodes of an ``onnx.ModelProto`` whose layers
    are named differently."""
    if not _has_layer_precisions():
        return {}
    nodes = [node for node in model.graph.node if node.output]
    unnamed = {node.output[0]: f"node_of_{node.output[0]}" for node in nodes if not node.name}
    normalizing = {
        node.name or node.output[0]: node.output[0]
        for node in nodes
        if node.op_type in _NORMALIZING
    }
    return {**unnamed, **normalizing}


def add_output_types(model: Any) -> Any:
    """Return a model whose outputs have data types, because TensorRT's parser refuses others.

    Args:
        model: an ``onnx.ModelProto``, in which tensors may have been marked as outputs.
    """
    if all(map(_has_type, model.graph.output)):
        return model
    try:
        inferred = infer_shapes(model).graph
    except Exception as error:  # For example, for a model above 2 GiB; the parser reports it.
        G_LOGGER.verbose(f"Data types of outputs cannot be inferred: {error}")
        return model
    values = (*inferred.value_info, *inferred.output)
    types = {value.name: value.type for value in values if _has_type(value)}
    typed = type(model)()
    typed.CopyFrom(model)
    for output in typed.graph.output:
        if not _has_type(output) and output.name in types:
            output.type.tensor_type.elem_type = types[output.name].tensor_type.elem_type
    return typed


def _has_type(value: Any) -> bool:
    """Return whether an ``onnx.ValueInfoProto`` has a data type; a tensor may have only a shape."""
    kind = value.type.WhichOneof("value")
    return bool(value.type.tensor_type.elem_type if kind == "tensor_type" else kind)


_NORMALIZING = {"GroupNormalization", "InstanceNormalization", "LayerNormalization"}
"""Operators whose layers have names such as "(Unnamed Layer* 74) [Normalization]" in TensorRT 8.6.
Their outputs identify them."""


def _has_layer_precisions() -> bool:
    """Return whether precision is requested layer by layer, and not by a strongly typed network."""
    return capabilities().has("layer_precisions")


_PROFILES = 2
"""Optimization profiles of an engine: one for the prompt, one for later steps."""

Shapes = Mapping[str, tuple[int, ...]]


def widen_ranges(ranges: Sequence[DomainProfile], shapes: Shapes) -> list[DomainProfile]:
    """Return ranges of shapes that contain further ones, for the next build of an engine.

    The first data have their own range. If later data grow, like the cache of a decoder, their
    range is extended by as many steps as there were before, so that few builds suffice.

    Args:
        ranges: the ranges of the last build.
        shapes: the shapes of data outside these ranges.
    """
    exact = DomainProfile.from_shapes(shapes)
    ranks = {name: len(shape) for name, shape in shapes.items()}
    is_like = bool(ranges) and ranks == {name: len(bound.min) for name, bound in ranges[-1].items()}
    if not is_like or len(ranges) < _PROFILES:
        return [*ranges, exact] if is_like else [exact]
    growth = {name: np.subtract(shape, ranges[-1][name].max) for name, shape in shapes.items()}
    if any((array < 0).any() for array in growth.values()):
        return [exact]
    spans = [
        span // new
        for name, array in growth.items()
        for span, new in zip(np.subtract(ranges[-1][name].max, ranges[-1][name].min), array)
        if new
    ]
    steps = max(spans, default=0) + 1
    wider = DomainProfile()
    for name, shape in shapes.items():
        # The largest shapes of all inputs must be those of the same later step, so that they fit
        # each other.
        largest = np.add(shape, steps * growth[name])
        wider.add(name, ranges[-1][name].min, shape, [*largest])
    return [*ranges[:-1], wider]


def _contains(ranges: DomainProfile, shapes: Shapes) -> bool:
    """Return whether a profile has a range for each input, and the shape is in it."""
    return ranges.keys() == shapes.keys() and not ranges.misfits(shapes)


class _BuiltModel:
    """A model, built for the input shapes that it receives."""

    def __init__(
        self,
        model: Any,
        settings: Mapping[str, Any],
        keep: Collection[str],
        timings: io.BytesIO,
    ) -> None:
        """Set the model and the settings, with the timings of earlier builds,
        which share most layers."""
        self._model = model
        self._settings = dict(settings)
        self._keep = list(keep)
        self._timings = timings
        self._runner: TrtRunner | None = None
        self._ranges: list[DomainProfile] = []

    def __call__(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of the engine for a feed."""
        shapes = {name: tuple(np.shape(array)) for name, array in feed.items()}
        if self._runner is None or not any(_contains(bounds, shapes) for bounds in self._ranges):
            self.close()
            self._ranges = widen_ranges(self._ranges, shapes)
            self._runner = self._build_runner()
            self._build_engine()
        fitted, _ = fit_feed(feed, self._runner.get_input_metadata(use_numpy_dtypes=False))
        values = self._runner.infer(fitted, check_inputs=False)
        return {name: np.array(array) for name, array in values.items()}

    def close(self) -> None:
        """Release the engine."""
        if self._runner is not None and self._runner.is_active:
            self._runner.deactivate()
        self._runner = None

    __del__ = close

    def _build_engine(self) -> None:
        """Build the engine; only the first build is logged, because later messages are the same."""
        assert self._runner is not None
        with ExitStack() as stack:
            if self._timings.getbuffer().nbytes:
                stack.enter_context(G_LOGGER.verbosity(G_LOGGER.ERROR))
            self._runner.activate()

    def _build_runner(self) -> TrtRunner:
        """Return a runner with an engine for the shapes of the inputs."""
        settings = dict(self._settings)
        is_path = isinstance(self._model, str)
        parse: Any = NetworkFromOnnxPath if is_path else NetworkFromOnnxModel
        network: Any = parse(self._model)
        if self._keep:
            network = SetLayerPrecisions(network, dict.fromkeys(self._keep, DataType.FLOAT32))
            if _has_layer_precisions():
                settings["precision_constraints"] = "obey"
        config = CreateConfig(profiles=self._ranges, load_timing_cache=self._timings, **settings)
        engine = EngineFromNetwork(network, config, save_timing_cache=self._timings)
        return TrtRunner(engine, name="trt")
