"""Loaders that change a network in place and pass it on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.datatype import as_trt_dtype
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.network.network import (
    NetworkParts,
    is_strongly_typed,
    layers_of,
    parts_of,
    tensors_of,
)
from polygraphy.adapters.tensorrt.network.onnx_network import NetworkEdit, remember_edit, source_of
from polygraphy.adapters.tensorrt.precision.casting import (
    QUANTIZED_TYPES,
    CastJob,
    PrecisionRequest,
    cast_parsed_models,
    current_casting,
    warn_of_unknown_layer,
)
from polygraphy.domain.errors import BackendError, UnknownNameError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.naming import select_names
from polygraphy.logger import G_LOGGER

mark_debug: Callable[..., NetworkParts]
postprocess_network: Callable[..., NetworkParts]
set_decomposable_attentions: Callable[..., NetworkParts]
set_tensor_datatypes: Callable[..., NetworkParts]
set_tensor_formats: Callable[..., NetworkParts]


class EditingLoader(BaseLoader):
    """Loads a network and applies one edit to it."""

    def __init__(self, network: Deferred[NetworkParts], edit: NetworkEdit) -> None:
        """Create a loader that edits a network, or the network from a loader.

        Args:
            network: builder, network and, where there is one, parser.
            edit: is stored with the network, so it must not refer to a network.
        """
        self._network = network
        self._edit = edit

    def call_impl(self) -> NetworkParts:
        """Return the builder, the edited network and, if there is one, the parser."""
        parts = parts_of(self._network)
        remember_edit(parts[1], self._edit)
        return parts


@mod.export(funcify=True)
class PostprocessNetwork(EditingLoader):
    """Calls a user's function that changes a network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        func: Callable[..., Any],
        name: str | None = None,
    ) -> None:
        """Create a loader that calls a function with a network, or the network from a loader.

        Args:
            network: builder, network and, where there is one, parser.
            func: a function that is called with the keyword argument `network`. Its return value is
                ignored.
            name: name of the function in messages (default: its own name).
        """
        if not callable(func):
            raise UsageError(
                f"{func!r} is not a function that edits a network.",
                hint="Pass a function with a parameter `network`.",
            )
        shown_name = name or getattr(func, "__name__", repr(func))

        def edit(network: Any) -> None:
            """Call the function with the network; raise UsageError if it does not accept it."""
            G_LOGGER.verbose(f"Applying network postprocessing: {shown_name}")
            try:
                func(network=network)
            except TypeError as error:
                if "network" not in str(error) or error.__traceback__ is None:
                    raise
                if error.__traceback__.tb_next is not None:
                    raise  # The TypeError is from inside of the function, not from its call.
                raise UsageError(
                    f"{shown_name} cannot be called as {shown_name}(network=...): {error}.",
                    hint="Name its parameter `network`.",
                ) from error

        super().__init__(network, edit)


@mod.export(funcify=True)
class SetDecomposableAttentions(EditingLoader):
    """Lets TensorRT decompose every attention layer for which it has no fused kernel."""

    def __init__(self, network: Deferred[NetworkParts]) -> None:
        """Create a loader that changes a network, or the network from a loader."""
        super().__init__(network, _set_decomposable)


def _set_decomposable(network: Any) -> None:
    """Allow TensorRT to decompose the attention layers of a network."""
    require("attention", "SetDecomposableAttentions (--decomposable-attentions)")
    count = 0
    for layer in layers_of(network):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            # A network returns layers of the base class. TensorRT's documentation sets `__class__`
            # to convert them.
            start: Any = layer
            start.__class__ = trt.IAttentionInputLayer
            start.attention.decomposable = True
            count += 1
    if count == 0:
        G_LOGGER.warning("The network has no attention layers that can be made decomposable.")


@mod.export(funcify=True)
class MarkDebug(EditingLoader):
    """Marks tensors whose values a debug listener receives while the engine runs."""

    def __init__(self, network: Deferred[NetworkParts], mark_debug: Sequence[str]) -> None:
        """Create a loader that marks tensors of a network, or of the network from a loader, for
        debugging.
        """
        names = list(mark_debug)

        def edit(network: Any) -> None:
            """Mark the tensors for debugging; raise UnknownNameError for an unknown one."""
            require("debug_tensors", "MarkDebug (--mark-debug)")
            tensors = tensors_of(network)
            for name in names:
                if name not in tensors:
                    raise UnknownNameError("Tensor", name, tensors)
                if not network.mark_debug(tensors[name]):
                    raise BackendError(
                        f"TensorRT does not accept {name!r} as a debug tensor.", backend="tensorrt"
                    )

        super().__init__(network, edit)


@mod.export(funcify=True)
class SetTensorFormats(EditingLoader):
    """Sets the allowed memory formats of inputs and outputs of a network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        tensor_formats: Mapping[str, Sequence[Any]] | Sequence[Any],
    ) -> None:
        """Create a loader that sets tensor formats of a network, or of the network from a loader.

        Args:
            network: builder, network and, where there is one, parser.
            tensor_formats: members of `tensorrt.TensorFormat`, or their names, that each input or
                output may have; a single list applies to all of them.
        """
        super().__init__(network, lambda network: _set_formats(network, tensor_formats))


def _set_formats(network: Any, formats: Mapping[str, Sequence[Any]] | Sequence[Any]) -> None:
    """Set the allowed formats of inputs and outputs."""
    tensors = _io_tensors(network)
    for name, wanted in _values_by_tensor(formats, tensors).items():
        mask = 0
        for item in wanted:
            spelt = item if isinstance(item, str) else item.name
            mask |= 1 << int(
                enum_value("TensorFormat", spelt, f"Format {spelt} for {name!r} (--tensor-formats)")
            )
        tensors[name].allowed_formats = mask


@mod.export(funcify=True)
class SetTensorDatatypes(EditingLoader):
    """Sets the data types of inputs and outputs of a network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        tensor_datatypes: Mapping[str, Any] | Any,
    ) -> None:
        """Create a loader that sets tensor data types of a network, or of the network from a
        loader.

        Args:
            network: builder, network and, where there is one, parser.
            tensor_datatypes: the type (a `DataType`, a member of `tensorrt.DataType`, or a name) of
                each input or output; a single type applies to all of them.
        """
        super().__init__(network, lambda network: _set_dtypes(network, tensor_datatypes))


def _set_dtypes(network: Any, dtypes: Mapping[str, Any] | Any) -> None:
    """Set the data types of inputs and outputs."""
    tensors = _io_tensors(network)
    for name, wanted in _values_by_tensor(dtypes, tensors).items():
        tensor, dtype = tensors[name], as_trt_dtype(wanted)
        if tensor.dtype == dtype:
            continue
        if is_strongly_typed(network) and tensor.is_network_output:
            _cast_output(network, tensor, dtype)
        else:
            if is_strongly_typed(network):
                require(
                    "tensor_dtype",
                    f"Data type {dtype.name} for the input {name!r} (--tensor-dtypes)",
                )
            tensor.dtype = dtype


def _cast_output(network: Any, tensor: Any, dtype: Any) -> None:
    """Append a cast to an output; its result takes the name of the output."""
    name = tensor.name
    network.unmark_output(tensor)
    tensor.name = f"{name}_before_cast"
    cast = network.add_cast(tensor, dtype).get_output(0)
    cast.name = name
    network.mark_output(cast)


def _io_tensors(network: Any) -> dict[str, Any]:
    """Return the inputs and outputs of a network, by name."""
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    return {tensor.name: tensor for tensor in (*inputs, *outputs)}


def _values_by_tensor(values: Any, known_names: Collection[str]) -> dict[str, Any]:
    """Return one value per input or output; a single value applies to all."""
    if not isinstance(values, Mapping):
        return dict.fromkeys(known_names, values)
    for name in values:
        if name not in known_names:
            raise UnknownNameError("Network input or output", name, known_names)
    return dict(values)


modify_network_outputs: Callable[..., NetworkParts]

# Outputs of these layers are known without running the network.
_NOT_MARKED = ("CONSTANT", "SHAPE")
_LOOP_STARTS = ("ITERATOR", "RECURRENCE", "TRIP_LIMIT")
_LOOP_END = "LOOP_OUTPUT"
_ALL = (constants.MARK_ALL, ["*"], ("*",), "*")


@mod.export(funcify=True)
class ModifyNetworkOutputs(EditingLoader):
    """Sets the outputs of a TensorRT network."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        outputs: Sequence[str] | None = None,
        exclude_outputs: Sequence[str] | None = None,
        mark_layer_types: Sequence[str] | None = None,
    ) -> None:
        """Set the tensors that become outputs; names may be patterns of `fnmatch`.

        Args:
            network: builder, network and, where there is one, parser; or a loader that returns
                them.
            outputs: the tensors that replace the present outputs; `MARK_ALL` or ``["*"]`` means all
                tensors except constants, shapes, booleans and tensors in loops.
            exclude_outputs: tensors that never become outputs.
            mark_layer_types: types of layers (names in `tensorrt.LayerType`, in upper or lower
                case), whose results become outputs, in place of the present ones or in addition to
                `outputs`.
        """
        choice = _OutputSelection(outputs, exclude_outputs, mark_layer_types)
        super().__init__(network, choice.apply)


class _OutputSelection:
    """Selects the tensors of a network that become outputs."""

    def __init__(
        self,
        outputs: Sequence[str] | None,
        exclude: Sequence[str] | None,
        types: Sequence[str] | None,
    ) -> None:
        """Set the names, exclusions and layer types."""
        self._marks_all = outputs in _ALL
        self._outputs = [outputs] if isinstance(outputs, str) else outputs
        self._exclude = [exclude] if isinstance(exclude, str) else exclude or ()
        self._types = [types] if isinstance(types, str) else types

    def apply(self, network: Any) -> None:
        """Mark the selected outputs, in the order in which the network computes them.

        Raises:
            UnknownNameError: a name, pattern or type matches nothing in the network.
            UsageError: no output remains.
        """
        tensors = tensors_of(network)
        present = [network.get_output(index) for index in range(network.num_outputs)]
        chosen = self._select_outputs(network, tensors, {tensor.name for tensor in present})
        if self._exclude:
            chosen -= select_names(self._exclude, tensors)
        if not chosen:
            remedy = (
                "Exclude fewer of them." if self._exclude else "Choose tensors, or different types."
            )
            raise UsageError("No output of the network remains.", hint=remedy)
        if chosen != {tensor.name for tensor in present}:
            for tensor in present:
                network.unmark_output(tensor)
            for name, tensor in tensors.items():
                if name in chosen:
                    network.mark_output(tensor)
        names = [network.get_output(index).name for index in range(network.num_outputs)]
        G_LOGGER.verbose(f"Outputs of the TensorRT network: {names}")

    def _select_outputs(self, network: Any, tensors: dict[str, Any], present: set[str]) -> set[str]:
        """Return the names of the tensors to mark."""
        if self._outputs is None and self._types is None:
            return present
        by_type = tensors_of_types(network, self._types or ())
        if self._outputs is None:
            return by_type
        if self._marks_all:
            return by_type | present | comparable_tensors(network)
        inputs = {network.get_input(index).name for index in range(network.num_inputs)}
        return by_type | select_names(self._outputs, tensors, unless=inputs)


def tensors_of_types(network: Any, types: Iterable[str]) -> set[str]:
    """Return the outputs of layers of some types; raise UnknownNameError for an unknown type."""
    members = trt.LayerType.__members__
    wanted = {name.upper() for name in types}
    for name in sorted(wanted):
        if name not in members:
            raise UnknownNameError("Layer type", name, sorted(members))
    tensors = {
        tensor
        for layer in layers_of(network)
        if layer.type.name in wanted
        for tensor in _names(layer)
    }
    if wanted and not tensors:
        G_LOGGER.warning(f"No layer of the network is of type {', '.join(sorted(wanted))}.")
    return tensors


def comparable_tensors(network: Any) -> set[str]:
    """Return the names of all tensors with values worth comparing."""
    tensors: set[str] = set()
    is_in_loop = False
    for layer in layers_of(network):
        kind = layer.type.name
        if kind in _LOOP_STARTS:
            is_in_loop = True
        elif kind == _LOOP_END:
            is_in_loop = False
        if not is_in_loop and kind not in _NOT_MARKED:
            tensors.update(_names(layer))
    return tensors


def _names(layer: Any) -> list[str]:
    """Return the names of the outputs of a layer, without shapes and booleans."""
    outputs = [layer.get_output(index) for index in range(layer.num_outputs)]
    return [
        tensor.name
        for tensor in outputs
        if tensor is not None and not tensor.is_shape_tensor and tensor.dtype != trt.DataType.BOOL
    ]


T = TypeVar("T")

set_layer_precisions: Callable[..., NetworkParts]

# Layers that compute constants or shapes; their types must not change.
_WITHOUT_PRECISION = ("CONSTANT", "SHAPE")


@mod.export(funcify=True)
class SetLayerPrecisions(BaseLoader):
    """Sets the precision in which layers of a network compute.

    If networks are strongly typed, the ONNX model is cast or quantized before it is parsed instead:
    the named layers keep their precision while the rest is lowered, or they are the only ones that
    are lowered. You can also name a layer by a tensor that it computes. A layer that does not exist
    causes a warning, because TensorRT versions can name layers differently.
    """

    def __init__(
        self,
        network: Deferred[NetworkParts],
        layer_precisions: Mapping[str, Any],
        calibrator: Any = None,
    ) -> None:
        """Create a loader that sets the data types of layers,
        by name, of a network or of the network from a loader.

        Args:
            network: builder, network and, where there is one, parser.
            layer_precisions: each a `DataType`, a member of `tensorrt.DataType`, or a name.
            calibrator: the calibrator with the data for quantization, if networks are strongly
                typed and the configuration has no calibrator.
        """
        self._network = network
        self._precisions = dict(layer_precisions)
        self._calibrator = calibrator

    def call_impl(self) -> NetworkParts:
        """Return the builder, the network and, if there is one, the parser.

        Raises:
            BackendError: networks are strongly typed, and a cast cannot produce the requested
                types.
        """
        if capabilities().has("layer_precisions"):
            parts = parts_of(self._network)
            self._set_layer_precisions(parts[1])
            return parts
        return self._network_from_cast_model()

    def _set_layer_precisions(self, network: Any) -> None:
        """Set the precisions of the layers of a network."""
        layers = list(layers_of(network))
        makers = {layer.name: layer.name for layer in layers}
        for layer in layers:
            for name in _output_names(layer):
                makers.setdefault(name, layer.name)
        precisions = {
            makers[name]: dtype
            for name, dtype in _values_of_existing_layers(self._precisions, makers).items()
        }
        for layer in layers:  # Several layers may have the same name.
            wanted = precisions.get(layer.name)
            if wanted is None:
                continue
            if layer.type.name in _WITHOUT_PRECISION:
                G_LOGGER.warning(
                    f"Layer {layer.name!r} is a {layer.type.name} layer: it keeps its type."
                )
                continue
            dtype = as_trt_dtype(wanted)
            layer.precision = dtype
            if layer.type != trt.LayerType.CAST:
                # The output type of a cast is its purpose, so keep it.
                _set_output_types(layer, dtype)

    def _network_from_cast_model(self) -> NetworkParts:
        """Return a network from a model in which those layers have those types."""
        wanted = {name: _narrow_type(name, dtype) for name, dtype in self._precisions.items()}
        job = current_casting()
        if job is not None:
            _add_to_cast(wanted, job)
            if job.calibration is None:
                job.calibration = self._calibrator
            return parts_of(self._network)
        own_casting = CastJob(PrecisionRequest(), calibration=self._calibrator)
        _add_to_cast(wanted, own_casting)
        lowered = own_casting.narrow_types(floats=True) | own_casting.narrow_types(floats=False)
        if not lowered:
            parts = parts_of(self._network)
            names = [layer.name for layer in layers_of(parts[1])]
            wanted = _values_of_existing_layers(wanted, [*names, *tensors_of(parts[1])])
            origin = source_of(parts[1])
            if origin is not None:  # The model may be cast later, when its configuration is known.
                origin.layer_precisions.update(wanted)
            return parts
        if not callable(self._network):
            raise _layer_types_error(lowered, "in a network that is already parsed")
        with cast_parsed_models(own_casting):
            parts = parts_of(self._network)
        if not own_casting.is_done:
            raise _layer_types_error(lowered, "in a network that is not parsed from ONNX")
        return parts


def _add_to_cast(wanted: Mapping[str, DataTypeEntry], job: CastJob) -> None:
    """Add requested layer precisions to a cast in progress, which can cast to one type and quantize
    to one."""
    job.layer_precisions.update(wanted)
    for type_entry, is_float in ((job.request.floats, True), (job.request.quantized, False)):
        named = job.narrow_types(floats=is_float)
        unlike = named - {type_entry}
        if type_entry is not None and unlike:
            raise _layer_types_error(
                unlike, f"while the rest of the model is cast to {job.request}"
            )
        if len(named) > 1:
            raise _layer_types_error(named, "together")


def _set_output_types(layer: Any, dtype: Any) -> None:
    """Set the type of the floating-point outputs of a layer."""
    floating = (trt.DataType.FLOAT, trt.DataType.HALF, getattr(trt.DataType, "BF16", None))
    for index in range(layer.num_outputs):
        tensor = layer.get_output(index)
        if tensor is None or tensor.is_shape_tensor or tensor.dtype not in floating:
            continue
        layer.set_output_type(index, dtype)


def _output_names(layer: Any) -> list[str]:
    """Return the names of the tensors that a layer computes."""
    outputs = map(layer.get_output, range(layer.num_outputs))
    return [tensor.name for tensor in outputs if tensor is not None]


def _narrow_type(name: str, dtype: Any) -> DataTypeEntry:
    """Return a requested type of a layer; raise BackendError if a model cannot use it."""
    entry = DataType.from_dtype(as_trt_dtype(dtype), "tensorrt")
    if not isinstance(entry, DataTypeEntry) or not (entry.is_floating or entry in QUANTIZED_TYPES):
        raise _layer_types_error({entry}, f"for the layer {name!r}")
    return entry


def _layer_types_error(dtypes: set[Any], where: str) -> BackendError:
    """Return the error for layer data types that only the model can set."""
    caps = capabilities()
    listed = ", ".join(sorted(str(dtype) for dtype in dtypes))
    return BackendError(
        f"{caps.name} {caps.version} takes data types from the model: it cannot use {listed}"
        f" {where}.",
        backend="tensorrt",
        hint="Cast or quantize those nodes of the ONNX model.",
    )


def _values_of_existing_layers(
    precisions: Mapping[str, T], known_names: Iterable[str]
) -> dict[str, T]:
    """Return the values for existing layers, and warn about the others."""
    remote_values = dict.fromkeys(known_names)
    for name in precisions:
        if name not in remote_values:
            warn_of_unknown_layer(name, remote_values)
    return {name: precision for name, precision in precisions.items() if name in remote_values}
