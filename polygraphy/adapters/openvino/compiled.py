"""Models compiled by OpenVINO."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from copy import copy
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from xml.etree import ElementTree

from attrs import evolve, frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx_common.loadable import loadable_form
from polygraphy.adapters.openvino.errors import translate_errors
from polygraphy.adapters.os.forks import OneProcess
from polygraphy.adapters.os.paths import readable_file
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.errors import BackendError, UnknownNameError, UsageError
from polygraphy.domain.tensors.facts import Facts, ModelFacts
from polygraphy.domain.tensors.naming import count_text
from polygraphy.domain.tensors.precision import coarsest_type
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import find_facts, inputs_of_known_rank

if TYPE_CHECKING:
    from onnx import ModelProto
    from openvino import CompiledModel

# Without a version here, because it is checked once elsewhere.
openvino = mod.lazy_import("openvino")

compiled_model_from_onnx: Callable[..., CompiledModel]

PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
"""Names of the data types in which OpenVINO can be asked to compute, by OpenVINO's names."""
HINT = "INFERENCE_PRECISION_HINT"
_OLDEST = 2024
_VIRTUAL = ("AUTO", "MULTI", "HETERO", "BATCH")
"""Devices that choose among others."""
_SINK = "/sink_port_0"
_LAYERS_THAT_MOVE = frozenset({"Input", "Output", "Const", "Reorder", "Convert"})


@frozen
class CompiledFacts:
    """The facts about a compiled model that OpenVINO does not keep.

    Attributes:
        inputs: the names of its inputs in the ONNX model, in order.
        outputs: the names of its outputs in the ONNX model, in order; it may have more.
        facts: the facts about the model, such as its compute precision.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    facts: Facts


_known: MutableMapping[CompiledModel, CompiledFacts] = WeakKeyDictionary()
PROCESS = OneProcess("OpenVINO")
_core: list[Any] = []


@mod.export(funcify=True)
class CompiledModelFromOnnx(BaseLoader):
    """Compiles an ONNX model with OpenVINO."""

    def __init__(
        self,
        path: Deferred[bytes | str | ModelProto],
        device: str | None = None,
        precision_hint: str | None = None,
        threads: int | None = None,
        cache_dir: str | None = None,
        properties: Mapping[str, str] | None = None,
        float32_tensors: Sequence[str] | None = None,
        fuse: bool | None = None,
    ) -> None:
        """Set the model, and the options to compile it with.

        Args:
            path: the path of a model, its bytes, the model itself, or a loader that returns one of
                these. A model of more than 2 GB is passed through a temporary file.
            device: the device, by its OpenVINO name: ``CPU``, ``GPU.1``, ``AUTO:GPU,CPU`` (default:
                ``CPU``).
            precision_hint: the precision to compute in, if the device supports it: ``f32``,
                ``bf16`` or ``f16`` (default: chosen by OpenVINO for the device; ``bf16`` on some
                processors).
            threads: the number of threads (default: OpenVINO decides).
            cache_dir: a folder for compiled models, so that they load faster the next time.
            properties: additional properties, by their OpenVINO names, such as
                ``{"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}``.
            float32_tensors: tensors of the ONNX model to compute in float32, regardless of the
                precision of the rest; only on the CPU.
            fuse: whether operators may be fused (default: True). If False, every tensor is kept,
                which takes memory and time.

        Raises:
            UsageError: the number of threads is less than one.
            UnknownNameError: the precision does not exist.
        """
        if threads is not None and threads < 1:
            raise UsageError(f"There must be at least one thread, not {threads}.")
        if precision_hint is not None and precision_hint not in PRECISIONS:
            raise UnknownNameError("Precision", precision_hint, PRECISIONS)
        self._model = path
        self._device = device or "CPU"
        self._precision_hint = precision_hint
        self._threads = threads
        self._cache_dir = cache_dir
        self._properties = dict(properties or {})
        self._float32_tensors = list(float32_tensors or ())
        self._fuse = fuse is not False

    def call_impl(self) -> CompiledModel:
        """Return the compiled model.

        Raises:
            FileError: the model file is missing or empty.
            ModelError: the model is damaged.
            UsageError: the folder for compiled models is a file.
            UnknownNameError: the device, or a tensor of the model, does not exist.
            BackendError: OpenVINO cannot compile the model.
        """
        if self._cache_dir is not None and Path(self._cache_dir).is_file():
            raise UsageError(
                f"The OpenVINO cache {self._cache_dir} is a file, not a folder.",
                hint="Choose a folder.",
            )
        core = core_of_process()
        PROCESS.enter()  # From the first compiled model on, forked processes must not use OpenVINO.
        _check_device(core, self._device)
        model: Any = evaluate(self._model)
        name = "the model"
        if isinstance(model, (str, Path)):
            name = model = str(readable_file(model, "Model"))
        with loadable_form(model) as source:
            with translate_errors("read", name):
                read = _read(source)
            outputs = [_output_name(port) for port in read.outputs]
            ranked = inputs_of_known_rank(model)
            inputs = [_input_name(port, ranked) for port in read.inputs]
            with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
                if self._float32_tensors:
                    with translate_errors("compile", name):
                        read = _model_in_float32(core, read, self._float32_tensors, folder)
                if not self._fuse:
                    read.add_outputs(_inner_ports(read))
                with translate_errors("compile", name):
                    compiled = core.compile_model(read, self._device, self._config())
        products = {op.friendly_name for op in read.get_ops() if op.get_type_name() == "MatMul"}
        lowered = self._low_precision_outputs(compiled, products)
        facts = find_facts(model)
        _known[compiled] = CompiledFacts(inputs, outputs, _LoweredFacts(facts, lowered))
        return compiled

    def with_properties(self, properties: Mapping[str, str]) -> CompiledModelFromOnnx:
        """Return a loader of the same model with further properties."""
        copied = copy(self)
        copied._properties = {**self._properties, **properties}
        return copied

    def _config(self) -> dict[str, Any]:
        """Return the OpenVINO properties to compile with."""
        given_values = {
            HINT: self._precision_hint,
            "INFERENCE_NUM_THREADS": self._threads,
            "CACHE_DIR": self._cache_dir,
        }
        config = {name: value for name, value in given_values.items() if value is not None}
        if self._float32_tensors and self._device == "CPU":
            # Nodes that are compiled into one kernel ignore the type of a tensor.
            config["SNIPPETS_MODE"] = "DISABLE"
        return {**config, **self._properties}

    def _low_precision_outputs(
        self, compiled: CompiledModel, products: Collection[str]
    ) -> dict[str, str]:
        """Return the type in which each output is computed,
        if it is less precise than float32, and log it.

        Args:
            compiled: the model.
            products: the names of its matrix products.
        """
        hint = precision_of(compiled)
        if hint == "f32":
            return {}
        layers = [
            # A kernel generated from products computes them in the requested type, even if it
            # reports a different one.
            evolve(layer, precision=hint) if layer.is_generated_from(products) else layer
            for layer in layers_of(compiled)
        ]
        lowered = _output_precisions(layers)
        narrow = [layer for layer in layers if layer.is_lowered]
        if narrow:
            text = (
                f"OpenVINO computes {len(narrow)} of {count_text(len(layers), 'layer')} in"
                f" {HALF[PRECISIONS[narrow[0].precision]]}"
            )
            if self._precision_hint is None:
                G_LOGGER.warning(
                    f"{text}, its default on this device; for fp32, use --openvino-precision f32"
                    ' (precision_hint="f32").'
                )
            else:
                G_LOGGER.info(f"{text}.")
        return lowered


class _LoweredFacts:
    """The facts about a model, with the data types in which OpenVINO computes its outputs."""

    def __init__(self, facts: Facts, lowered: Mapping[str, str]) -> None:
        """Set the facts of the model, and the data types of its outputs."""
        self._facts = facts
        self._lowered = lowered

    def __getattr__(self, name: str) -> Any:
        """Return another fact about the model."""
        if name.startswith("_"):  # Private attributes are missing while pickle restores the object.
            raise AttributeError(name)
        return getattr(self._facts, name)

    @property
    def compute_dtypes(self) -> Mapping[str, str]:
        """Return the data type in which each output is computed, by name."""
        dtypes = self._facts.compute_dtypes
        lowered: dict[str, str] = {}
        for name, dtype in self._lowered.items():
            precision = coarsest_type([dtype, dtypes.get(name, dtypes.get("", ""))])
            lowered[name] = dtype if precision is None else precision.name
        return {**dtypes, **lowered}


def read_facts(compiled: CompiledModel) -> CompiledFacts:
    """Return the facts about a compiled model; only names if it was compiled elsewhere."""
    if compiled in _known:
        return _known[compiled]
    inputs = [_input_name(port) for port in compiled.inputs]
    return CompiledFacts(inputs, [_output_name(port) for port in compiled.outputs], ModelFacts())


def core_of_process() -> Any:
    """Return OpenVINO's `Core`, one per process.
    Each installs signal handlers, and several that end in a different order crash at Ctrl-C.

    Raises:
        MissingDependencyError: OpenVINO is not installed.
        BackendError: OpenVINO is too old.
        UsageError: this process was forked from one in which OpenVINO has threads.
    """
    year = str(getattr(openvino, "__version__", "")).partition(".")[0]
    if not year.isdigit() or int(year) < _OLDEST:
        raise BackendError(
            "This OpenVINO is too old: 2024.0 or later is required.",
            backend="openvino",
            hint="pip install -U openvino",
        )
    PROCESS.check()
    if not _core:
        _core.append(openvino.Core())
    return _core[0]


def precision_of(compiled: CompiledModel) -> str:
    """Return the requested compute type of a compiled model, by OpenVINO's name."""
    precision_name = _precision_name(compiled.get_property)
    # AUTO and HETERO do not report the properties of the device that they chose.
    if precision_name is None:
        lowered = (layer.precision for layer in layers_of(compiled) if layer.is_lowered)
        return next(lowered, "f32")
    return precision_name


def default_precision(device: str) -> str:
    """Return the default compute type of a device, by OpenVINO's name;
    for several devices, the first below float32.
    """
    core = core_of_process()
    kind, _, listed = device.partition(":")
    names = [device]
    if kind in _VIRTUAL:
        names = listed.split(",") if listed else core.available_devices
    precision_names = (_precision_name(partial(core.get_property, name)) for name in names)
    return next((name for name in precision_names if name not in (None, "f32")), None) or "f32"


def _precision_name(get: Callable[[str], Any]) -> str | None:
    """Return the name of a type, float32 for all others; None if OpenVINO does not report it."""
    try:
        name: str = get(HINT).get_type_name()
    except RuntimeError:  # The device does not have this property.
        return None
    return name if name in PRECISIONS else "f32"


def _read(source: bytes | str) -> Any:
    """Return a model read as ONNX.
    OpenVINO's own detection tries all formats, and some log errors."""
    from openvino.frontend import FrontEndManager

    frontend = FrontEndManager().load_by_framework("onnx")
    return frontend.convert(frontend.load(source if isinstance(source, str) else BytesIO(source)))


def _check_device(core: Any, device: str) -> None:
    """Raise UnknownNameError if a device does not exist."""
    if device == "CPU":  # Listing the devices loads their drivers.
        return
    available_devices = core.available_devices
    plain = device.partition(".")[0]
    listed = {name.partition(".")[0] for name in available_devices}
    is_virtual = plain.partition(":")[0] in _VIRTUAL
    if plain not in listed and not is_virtual:
        hint = "Other devices require drivers; see the OpenVINO documentation."
        raise UnknownNameError("OpenVINO device", device, available_devices, hint=hint)


def _output_name(port: Any) -> str:
    """Return the name of an output in the ONNX model.
    Equal tensors share several names, one of which is in the name of the output."""
    called: str = port.node.friendly_name
    if called.endswith(_SINK):
        return called[: -len(_SINK)]
    return str(port.any_name)


def _input_name(port: Any, names: Collection[str] = ()) -> str:
    """Return the name of an input in the ONNX model:
    OpenVINO may add the names of equal tensors.
    """
    return min(port.names & set(names), default=str(port.any_name))


def _inner_ports(model: Any) -> list[Any]:
    """Return the results of operators that are not outputs yet."""
    skipped = ("Parameter", "Result", "Constant")
    ports = [p for op in model.get_ops() if op.get_type_name() not in skipped for p in op.outputs()]
    return [
        port
        for port in ports
        if not any(
            target_input_.get_node().get_type_name() == "Result"
            for target_input_ in port.get_target_inputs()
        )
    ]


def _model_in_float32(core: Any, model: Any, tensors: Sequence[str], folder: str) -> Any:
    """Return a model with some tensors computed in float32.
    The setting of an operator can only be written in an OpenVINO file.
    """
    ports = {name: port for op in model.get_ops() for port in op.outputs() for name in port.names}
    for name in tensors:
        if name not in ports:
            raise UnknownNameError("Tensor", name, sorted(ports))
    chosen: set[str] = set()
    waiting = [ports[name].get_node() for name in tensors]
    while waiting:  # One ONNX operator can become several, and the inner ones have no names.
        node = waiting.pop()
        if node.friendly_name in chosen:
            continue
        chosen.add(node.friendly_name)
        waiting += [port.get_node() for port in node.input_values() if not port.names]
    structure, weights = f"{folder}/model.xml", f"{folder}/model.bin"
    openvino.serialize(model, structure, weights)
    tree = ElementTree.parse(structure)
    for layer in tree.getroot().iter("layer"):
        if layer.get("name") in chosen:
            info = layer.find("rt_info")
            if info is None:  # The new element must follow `data`, if there is one.
                info = ElementTree.Element("rt_info")
                layer.insert(int(layer.find("data") is not None), info)
            ElementTree.SubElement(info, "attribute", {"name": "precise", "version": "0"})
    tree.write(structure)
    return core.read_model(structure, weights)


@frozen
class Layer:
    """A layer of the executed graph.

    Attributes:
        name: its name in that graph.
        kind: such as ``Convolution``.
        precision: the compute precision, as OpenVINO names it.
        names: the operators that it consists of, mostly by the tensors that they compute.
        reads: the layers before it.
        output: the name of the model output that it computes; empty for none.
    """

    name: str
    kind: str
    precision: str
    names: Sequence[str]
    reads: Sequence[str]
    output: str = ""

    def is_generated_from(self, names: Collection[str]) -> bool:
        """Return whether the layer is generated code for several operators,
        including one of these."""
        return self.kind == "Subgraph" and not {*names}.isdisjoint(self.names)

    @property
    def is_lowered(self) -> bool:
        """Return whether the layer computes in less than float32."""
        return self.precision in ("bf16", "f16") and self.kind not in _LAYERS_THAT_MOVE


def layers_of(compiled: CompiledModel) -> list[Layer]:
    """Return the executed layers, in order; none if the device does not expose them."""
    try:
        ops = compiled.get_runtime_model().get_ordered_ops()
    except RuntimeError:
        return []
    return [_layer(op) for op in ops]


def _layer(op: Any) -> Layer:
    """Return one layer of the executed graph."""
    info = op.get_rt_info()

    def info_of(key: str) -> str:
        """Return a runtime property of the operator as text; empty if it is missing."""
        return str(info[key].astype(str)) if key in info else ""

    name: str = op.friendly_name
    return Layer(
        name,
        info_of("layerType"),
        info_of("runtimePrecision"),
        [word for word in info_of("originalLayersNames").split(",") if word],
        [port.get_node().friendly_name for port in op.input_values()],
        name[: -len(_SINK)] if name.endswith(_SINK) else "",
    )


def _output_precisions(layers: Sequence[Layer]) -> dict[str, str]:
    """Return, by output, the least precise type in its computation,
    if that is less than float32."""
    visited: dict[str, str] = {}
    for layer in layers:
        before = [visited[name] for name in layer.reads if name in visited]
        own_names = [PRECISIONS[layer.precision]] if layer.is_lowered else []
        if (precision := coarsest_type([*before, *own_names])) is not None:
            visited[layer.name] = precision.name
    return {
        layer.output: visited[layer.name]
        for layer in layers
        if layer.output and layer.name in visited
    }
