"""Networks parsed from ONNX models."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define, field, frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.os.paths import readable_file
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.module import (
    Reasons,
    capture_log,
    get_trt_logger,
    setting_of,
    trt,
)
from polygraphy.adapters.tensorrt.network.network import CreateNetwork, NetworkParts
from polygraphy.adapters.tensorrt.precision.casting import (
    CastJob,
    PrecisionRequest,
    cast_model,
    current_casting,
    request_named,
)
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    ModelError,
    PolygraphyException,
    UnsupportedModelError,
    UsageError,
)
from polygraphy.last_words import last_words
from polygraphy.logger import G_LOGGER, LogMode
from polygraphy.ports.models import load_onnx, parse_onnx, save_model
from polygraphy.ports.running import describe_node_inputs

NetworkEdit = Callable[[Any], None]
"""Changes a network in place, the same way each time."""


@define
class NetworkSource:
    """The model and the loader that a network was created from.

    Attributes:
        parse: parses it again, from a cast model; None if precisions are flags, so that the model
            need not stay in memory.
        model: the file that it was parsed from; empty for bytes.
        request: the precision that its model was cast to.
        edits: the later changes by loaders, in order.
        seen: its `fingerprint` after the last of these.
        layer_precisions: the requested precisions of layers, for casts of its model.
    """

    parse: Callable[[CastJob], NetworkParts] | None
    model: str = ""
    request: PrecisionRequest | None = None
    edits: list[NetworkEdit] = field(factory=list)
    seen: int = 0
    layer_precisions: dict[str, Any] = field(factory=dict)


_origins: WeakKeyDictionary[Any, NetworkSource] = WeakKeyDictionary()


def remember_source(network: Any, origin: NetworkSource) -> None:
    """Attach the source to a network, for its lifetime."""
    if capabilities().has("weak_typing"):
        origin.parse = None
    else:
        origin.seen = fingerprint(network)
    _origins[network] = origin


def source_of(network: Any) -> NetworkSource | None:
    """Return the source of a network; None if no loader of this package created it."""
    return _origins.get(network)


def remember_edit(network: Any, edit: NetworkEdit) -> None:
    """Apply an edit to a network, and record it unless other code edited the network before."""
    origin = source_of(network)
    if origin is None or origin.parse is None:
        edit(network)
        return
    is_ours = origin.seen == fingerprint(network)
    edit(network)
    if is_ours:
        origin.edits.append(edit)
        origin.seen = fingerprint(network)


def fingerprint(network: Any) -> int:
    """Return a number that changes with the layers, tensors, inputs or outputs of a network."""
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    return hash(
        (
            network.name,
            tuple(_tensor(tensor) for tensor in (*inputs, *outputs)),
            tuple(_layer(layer) for layer in layers),
        )
    )


def _tensor(tensor: Any) -> tuple[Any, ...]:
    """Return the properties of a tensor that a fingerprint covers."""
    return (tensor.name, tensor.dtype.name, repr(tensor.shape), tensor.allowed_formats)


def _layer(layer: Any) -> tuple[Any, ...]:
    """Return the properties of a layer that a fingerprint covers."""
    inputs = (layer.get_input(index) for index in range(layer.num_inputs))
    outputs = (layer.get_output(index) for index in range(layer.num_outputs))
    return (
        layer.name,
        layer.type.name,
        tuple(None if tensor is None else tensor.name for tensor in inputs),
        tuple(None if tensor is None else tensor.name for tensor in outputs),
    )


_SHOWN = 5
_ONNX = ("", "ai.onnx")
_LAST_OPSET = 17
"""The newest opset of TensorRT 8.6."""
_DLA = "DLA validation failed"
_DAMAGED = "MODEL_DESERIALIZE_FAILED"
_MISSING_FILE = re.compile(r"Failed to open file: ([^|]*[^|\s])")


def parsing_error(
    parser: Any, source: str, reasons: Reasons, model: Callable[[], Any] | None = None
) -> PolygraphyException:
    """Return the error for a model that the parser rejected.

    Args:
        parser: the `tensorrt.OnnxParser`.
        source: the parsed model, for the message.
        reasons: messages that TensorRT logged meanwhile; used if the parser itself gives no reason.
        model: returns the `onnx.ModelProto`, for the inputs of failing nodes.
    """
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    if any(_code(error) == _DAMAGED for error in errors):
        return ModelError(
            f"ONNX model is invalid: {source} is truncated, damaged, or not an ONNX model."
            f" ({' '.join(str(errors[0].desc()).split())})",
            path=source,
            hint="Export or download it again.",
        )
    missing = _MISSING_FILE.search(str(reasons))
    if missing is not None:
        return FileError(
            f"{source} stores weights in a file that TensorRT cannot open: {missing[1]}.",
            path=missing[1],
            hint="Put it next to the model, or set its folder with --external-data-dir.",
        )
    if not errors:
        return reasons.error_for(f"parse {source}")
    lines = list(
        dict.fromkeys(describe_error(error) + _node_inputs_text(error, model) for error in errors)
    )
    extra_names = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    text = "".join(f"\n    {line}" for line in lines[:_SHOWN] + extra_names)
    failed = f"TensorRT could not parse {source}:{text}"
    if "QuantizeLinear" in text or "DequantizeLinear" in text:
        return UnsupportedModelError(failed, backend="tensorrt", hint=_QUANTIZE_AGAIN)
    return BackendError(failed, backend="tensorrt", hint=_error_hint(errors))


_QUANTIZE_AGAIN = (
    "\nTensorRT accepts signed codes with zero point 0, and biases in floating point. Quantize the"
    " model again: with ONNX Runtime, quantize_static(..., activation_type=QuantType.QInt8,"
    " weight_type=QuantType.QInt8, extra_options={'ActivationSymmetric': True, 'WeightSymmetric':"
    " True, 'QuantizeBias': False})."
)


def _node_inputs_text(error: Any, model: Callable[[], Any] | None) -> str:
    """Return the inputs of the node of an error, in parentheses; empty if they are unknown."""
    if model is None or error.node() < 0:
        return ""
    try:
        loaded = model()
        node = loaded.graph.node[error.node()]
    except Exception:  # Raise the original error, even if describing it fails.
        return ""
    inputs = describe_node_inputs(loaded, node.op_type, node.name, {})
    return f" ({inputs})" if inputs else ""


def _error_hint(errors: Sequence[Any]) -> str:
    """Return advice about errors, on a separate line; empty if there is none."""
    texts = [str(error.desc()) for error in errors]
    if any(_DLA in text for text in texts):
        return (
            "\nWith report_capability_dla, TensorRT rejects every node that DLA cannot run: on"
            " a machine without DLA, all nodes."
        )
    codes = [_code(error) for error in errors]
    if any(code.startswith("UNSUPPORTED") for code in codes) or any(
        "Plugin not found" in text for text in texts
    ):
        return (
            "\nUnsupported operator: load its plugin, replace the node, or see `polygraphy inspect"
            " capability`."
        )
    return ""


def warn_about_opset(source: str, load: Callable[[], Any]) -> None:
    """Log a warning if a model has a newer opset than the TensorRT in use,
    which then ignores inputs that were attributes before.

    Args:
        source: the model, for the message.
        load: returns it as an `onnx.ModelProto`.
    """
    if capabilities().has("opset_18"):
        return
    try:
        opsets = [entry.version for entry in load().opset_import if entry.domain in _ONNX]
    except PolygraphyException:  # The parser reports it.
        return
    if max(opsets, default=0) > _LAST_OPSET:
        G_LOGGER.warning(
            f"TensorRT {trt.__version__} supports ONNX up to opset {_LAST_OPSET}, and {source} has"
            f" opset {max(opsets)}: results can be wrong without an error, for example because the"
            f" axes of ReduceMean are ignored. Export it with opset {_LAST_OPSET}, or convert it"
            f" with `polygraphy convert MODEL --opset {_LAST_OPSET} -o NEW.onnx`.",
            mode=LogMode.ONCE,
        )


def warn_about_errors(parser: Any) -> None:
    """Log the parser's errors about a model that it accepted."""
    for index in range(parser.num_errors):
        G_LOGGER.warning(f"ONNX parser: {describe_error(parser.get_error(index))}")


def describe_error(error: Any) -> str:
    """Return one error of the parser as a line: the node, the operator, and the problem."""
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    where = f"node {error.node()}" if error.node() >= 0 else ""
    for part, form in ((name, " {!r}"), (operator, " ({})")):
        where += form.format(part) if where and part else ""
    text = " ".join(str(error.desc()).split()) or "no description"
    return f"{where}: {_code(error)}: {text}" if where else f"{_code(error)}: {text}"


def _code(error: Any) -> str:
    """Return the name of the code of an error."""
    return str(error.code()).rpartition(".")[2]


network_from_onnx_bytes: Callable[..., tuple[Any, Any, Any]]
network_from_onnx_model: Callable[..., tuple[Any, Any, Any]]
network_from_onnx_path: Callable[..., tuple[Any, Any, Any]]

_REPORT_DLA = "REPORT_CAPABILITY_DLA"
_UINT8_DLA = "ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA"
_CRASHED = (
    "[!] The process ended while TensorRT parsed {}: TensorRT crashed, or the process was"
    " killed. To find the nodes: polygraphy debug reduce MODEL -o reduced.onnx --check"
    " polygraphy convert polygraphy_debug.onnx -o reduced.engine. To continue with other"
    " backends: --use-subprocess."
)
"""The message if TensorRT's parser crashes, for example on an invalid model."""


@frozen
class _Model:
    """The model that a loader parses.

    Attributes:
        parse: lets a parser read the unmodified model; temporary files are removed by the stack.
        load: returns it as an `onnx.ModelProto`, for a cast and for messages.
        path: the file; empty for a model in memory.
    """

    parse: Callable[[Any, ExitStack], bool]
    load: Callable[[], Any]
    path: str = ""

    @property
    def name(self) -> str:
        """Return the name of the model for messages."""
        return self.path or "the ONNX model"


class _NetworkFromOnnx(BaseLoader):
    """Base class of loaders that parse an ONNX model into a network."""

    def __init__(
        self,
        flags: Sequence[Any] | None = None,
        plugin_instancenorm: bool | None = None,
        strongly_typed: bool | None = None,
        mark_unfused_tensors_as_debug_tensors: bool | None = None,
        enable_uint8_asymmetric_quantization_dla: bool | None = None,
        config: Any = None,
        *,
        cast: str | None = None,
        explicit_precision: bool | None = None,
    ) -> None:
        """Set the options of the parser.

        Args:
            flags: members of `tensorrt.OnnxParserFlag`, or their names, to set.
            plugin_instancenorm: whether InstanceNormalization becomes a plugin.
            strongly_typed: whether tensors have the types that the model says, and no others.
            mark_unfused_tensors_as_debug_tensors: whether tensors that remain after fusion become
                debug tensors.
            enable_uint8_asymmetric_quantization_dla: the parser flag of that name.
            config: an `IBuilderConfig`, or a loader of one, for the parser.
            cast: the type to which floating-point tensors of the model are cast first, ``fp16`` or
                ``bf16``; the network is then strongly typed, and its inputs and outputs keep their
                types.
            explicit_precision: deprecated, without effect.
        """
        if explicit_precision is not None:
            mod.warn_deprecated("explicit_precision", None, "2.0")
        self._flags = list(flags or ())
        if enable_uint8_asymmetric_quantization_dla:
            self._flags.append(_UINT8_DLA)
        self._plugin_instancenorm = bool(plugin_instancenorm)
        self._strongly_typed = bool(strongly_typed)
        self._mark_unfused = bool(mark_unfused_tensors_as_debug_tensors)
        self._config = config
        self._cast: PrecisionRequest | None = None if cast is None else request_named(cast)

    def call_impl(self) -> tuple[Any, Any, Any]:
        """Return the builder, the network and the parser.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            FileError: the file is missing or empty, or a temporary file cannot be written.
            ModelError: it is not an ONNX model.
            BackendError: there is no GPU, or TensorRT does not support the model.
        """
        model = self._source()
        job = current_casting()
        if job is None and self._cast is not None:
            job = CastJob(self._cast)
        parts = self._parse(model, job)
        request = None if job is None else job.request
        origin = NetworkSource(partial(self._parse, model), model.path, request)
        remember_source(parts[1], origin)
        return parts

    def _source(self) -> _Model:
        """Return the model to parse."""
        raise NotImplementedError

    def _parse(self, model: _Model, job: CastJob | None) -> tuple[Any, Any, Any]:
        """Return the builder, the network and the parser of a model.

        The model is cast first if requested.
        """
        if job is not None and self._cast is not None:
            require("strongly_typed", "cast")
        builder, network = CreateNetwork(
            strongly_typed=self._strongly_typed or (job is not None and self._cast is not None),
            mark_unfused_tensors_as_debug_tensors=self._mark_unfused,
        ).create_with(None if job is None else job.builder)
        parser = trt.OnnxParser(network, get_trt_logger())
        self._set_flags(parser)
        self._set_config(builder, parser)
        warn_about_opset(
            model.name,
            partial(load_onnx, model.path, maps_weights=True) if model.path else model.load,
        )
        with ExitStack() as stack:
            with capture_log() as reasons, last_words(_CRASHED.format(model.name)):
                if job is not None:
                    is_parsed = _parse_model(parser, cast_model(model.load(), job), stack)
                else:
                    is_parsed = model.parse(parser, stack)
            if not is_parsed:
                load = model.load if job is None else None
                raise parsing_error(parser, model.name, reasons, load)
        warn_about_errors(parser)
        return builder, network, parser

    def _set_flags(self, parser: Any) -> None:
        """Set the flags of the parser."""
        has_flags = capabilities().has("parser_flags")
        if self._flags:
            require("parser_flags", setting_of("flags", self._flags))
        for flag in self._flags:
            name = flag if isinstance(flag, str) else flag.name
            member = enum_value("OnnxParserFlag", name, setting_of("flags", name))
            if name.upper() == _REPORT_DLA and self._config is None:
                raise UsageError(
                    f"flags={name}: the parser requires a builder configuration for this flag.",
                    hint="Pass one: NetworkFromOnnxPath(path, flags=[...],"
                    " config=CreateConfig(use_dla=True)).",
                )
            parser.set_flag(member)
        if self._plugin_instancenorm and has_flags:  # Versions without flags always use the plugin.
            parser.clear_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)

    def _set_config(self, builder: Any, parser: Any) -> None:
        """Pass the builder configuration to the parser; raise UsageError if it is rejected."""
        if self._config is None:
            return
        require("parser_builder_config", "config")
        config = self._config(builder, None) if callable(self._config) else self._config
        if not parser.set_builder_config(config):
            raise UsageError("The ONNX parser rejected the builder configuration.")


def _parse_model(parser: Any, model: Any, stack: ExitStack) -> bool:
    """Parse an `onnx.ModelProto` of any size, and return whether that succeeded;
    above the format's limit through a file, which `stack` removes.
    """
    try:
        content = model.SerializeToString()
    except Exception as error:  # The implementations of protobuf raise different classes.
        G_LOGGER.verbose(f"The model is passed to TensorRT in a temporary file: {error}")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="polygraphy-"))
        path = str(Path(folder, "model.onnx"))
        save_model(model, path)
        return bool(parser.parse_from_file(path))
    return bool(parser.parse(content))


@mod.export(funcify=True)
class NetworkFromOnnxBytes(_NetworkFromOnnx):
    """Parses a serialized ONNX model into a TensorRT network."""

    def __init__(
        self,
        model_bytes: Deferred[bytes],
        flags: Sequence[Any] | None = None,
        plugin_instancenorm: bool | None = None,
        strongly_typed: bool | None = None,
        mark_unfused_tensors_as_debug_tensors: bool | None = None,
        enable_uint8_asymmetric_quantization_dla: bool | None = None,
        config: Any = None,
        *,
        cast: str | None = None,
        explicit_precision: bool | None = None,
    ) -> None:
        """Create a loader that parses a serialized model, or the bytes from a loader."""
        super().__init__(
            flags,
            plugin_instancenorm,
            strongly_typed,
            mark_unfused_tensors_as_debug_tensors,
            enable_uint8_asymmetric_quantization_dla,
            config,
            cast=cast,
            explicit_precision=explicit_precision,
        )
        self._model_bytes = model_bytes

    def _source(self) -> _Model:
        """Return the bytes as the model to parse."""
        content = evaluate(self._model_bytes)
        return _Model(lambda parser, _: bool(parser.parse(content)), lambda: parse_onnx(content))


@mod.export(funcify=True)
class NetworkFromOnnxModel(_NetworkFromOnnx):
    """Parses an ONNX model in memory, of any size, into a TensorRT network.

    A model of more than 2 GiB cannot be serialized. It is passed to TensorRT in a temporary file,
    with its weights in another file.
    """

    def __init__(
        self,
        model: Deferred[Any],
        flags: Sequence[Any] | None = None,
        plugin_instancenorm: bool | None = None,
        strongly_typed: bool | None = None,
        mark_unfused_tensors_as_debug_tensors: bool | None = None,
        enable_uint8_asymmetric_quantization_dla: bool | None = None,
        config: Any = None,
        *,
        cast: str | None = None,
        explicit_precision: bool | None = None,
    ) -> None:
        """Create a loader that parses a model, or the model from a loader."""
        super().__init__(
            flags,
            plugin_instancenorm,
            strongly_typed,
            mark_unfused_tensors_as_debug_tensors,
            enable_uint8_asymmetric_quantization_dla,
            config,
            cast=cast,
            explicit_precision=explicit_precision,
        )
        self._model = model

    def _source(self) -> _Model:
        """Return the model in memory as the model to parse."""
        model = evaluate(self._model)
        return _Model(lambda parser, files: _parse_model(parser, model, files), lambda: model)


@mod.export(funcify=True)
class NetworkFromOnnxPath(_NetworkFromOnnx):
    """Parses an ONNX file, of any size and with its external weights, into a TensorRT network."""

    def __init__(
        self,
        path: Deferred[str],
        flags: Sequence[Any] | None = None,
        plugin_instancenorm: bool | None = None,
        strongly_typed: bool | None = None,
        mark_unfused_tensors_as_debug_tensors: bool | None = None,
        enable_uint8_asymmetric_quantization_dla: bool | None = None,
        config: Any = None,
        *,
        cast: str | None = None,
        explicit_precision: bool | None = None,
    ) -> None:
        """Create a loader that parses the model in a file."""
        super().__init__(
            flags,
            plugin_instancenorm,
            strongly_typed,
            mark_unfused_tensors_as_debug_tensors,
            enable_uint8_asymmetric_quantization_dla,
            config,
            cast=cast,
            explicit_precision=explicit_precision,
        )
        self._path = path

    def _source(self) -> _Model:
        """Return the file as the model to parse."""
        path = str(readable_file(evaluate(self._path), "Model"))
        return _Model(
            lambda parser, _: bool(parser.parse_from_file(path)), lambda: load_onnx(path), path
        )
