"""Networks parsed from ONNX models."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.os.last_words import last_words
from polygraphy.adapters.os.paths import readable_file
from polygraphy.adapters.tensorrt.library.capabilities import capabilities, enum_value, require
from polygraphy.adapters.tensorrt.library.logger import capture_log, get_trt_logger
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.library.setting import setting_of
from polygraphy.adapters.tensorrt.network.network import CreateNetwork
from polygraphy.adapters.tensorrt.network.network_source import NetworkSource, remember_source
from polygraphy.adapters.tensorrt.network.parser_errors import parsing_failed, warn_about_errors
from polygraphy.adapters.tensorrt.precision.casting import (
    Casting,
    PrecisionRequest,
    cast_model,
    current_casting,
    request_named,
)
from polygraphy.domain.errors import UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import load_onnx, parse_onnx, save_model

network_from_onnx_bytes: Callable[..., tuple[Any, Any, Any]]
network_from_onnx_model: Callable[..., tuple[Any, Any, Any]]
network_from_onnx_path: Callable[..., tuple[Any, Any, Any]]

_REPORT_DLA = "REPORT_CAPABILITY_DLA"
_UINT8_DLA = "ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA"
_CRASHED = (
    "[!] The process ended while TensorRT parsed {}: TensorRT crashed, or it was killed. To find"
    " the nodes: polygraphy debug reduce MODEL -o reduced.onnx --check polygraphy convert"
    " polygraphy_debug.onnx -o reduced.engine. To go on with other backends: --use-subprocess."
)
"""What is said of a crash inside of the parser, such as on a model that it does not expect."""


class _NetworkFromOnnx(BaseLoader):
    """What the loaders of networks from ONNX models share."""

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
        """Describe how the model is parsed.

        Args:
            flags: members of `tensorrt.OnnxParserFlag`, or their names, to set.
            plugin_instancenorm: whether InstanceNormalization becomes a plugin.
            strongly_typed: whether tensors have the types that the model says, and no others.
            mark_unfused_tensors_as_debug_tensors: whether tensors that survive fusion become debug
                tensors.
            enable_uint8_asymmetric_quantization_dla: the parser flag of that name.
            config: an `IBuilderConfig`, or a loader of one, that the parser should know.
            cast: the type to which floating-point tensors of the model are cast first, ``fp16`` or
                ``bf16``; the network is strongly typed then, and its inputs and outputs keep their
                types.
            explicit_precision: deprecated, and without a meaning.
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

    def _parsed(self, parse: Callable[[Any], bool], model: Any, source: str) -> tuple[Any, ...]:
        """Make a network, and return it with its builder and its parser.

        Args:
            parse: has a parser read the model as it is.
            model: returns the `onnx.ModelProto`, which is asked for only if it has to be cast.
            source: the model, for messages.
        """
        job = self._job()
        if job is not None and self._cast is not None:
            require("strongly_typed", "cast")
        builder, network = CreateNetwork(
            strongly_typed=self._strongly_typed or (job is not None and self._cast is not None),
            mark_unfused_tensors_as_debug_tensors=self._mark_unfused,
        ).call_impl()
        parser = trt.OnnxParser(network, get_trt_logger())
        self._set_flags(parser)
        self._set_config(builder, parser)
        with ExitStack() as stack, capture_log() as reasons, last_words(_CRASHED.format(source)):
            if job is not None:
                is_parsed = _parse_model(parser, cast_model(model(), job), stack)
            else:
                is_parsed = parse(parser)
        if not is_parsed:
            raise parsing_failed(parser, source, reasons, model if job is None else None)
        warn_about_errors(parser)
        return builder, network, parser

    def _job(self) -> Casting | None:
        """Return what is to be done to the model in front of the parser."""
        job = current_casting()
        if job is not None:
            return job
        return None if self._cast is None else Casting(self._cast)

    def _remember(self, parts: tuple[Any, ...], parse: Callable[[], Any], model: str) -> None:
        job = self._job()
        request = None if job is None else job.request
        remember_source(parts[1], NetworkSource(parse=parse, model=model, request=request))

    def _set_flags(self, parser: Any) -> None:
        has_flags = capabilities().has("parser_flags")
        if self._flags:
            require("parser_flags", setting_of("flags", self._flags))
        for flag in self._flags:
            name = flag if isinstance(flag, str) else flag.name
            member = enum_value("OnnxParserFlag", name, setting_of("flags", name))
            if name.upper() == _REPORT_DLA and self._config is None:
                raise UsageError(
                    f"flags={name}: the parser needs a builder configuration to report that.",
                    hint="Give one: NetworkFromOnnxPath(path, flags=[...], config="
                    "CreateConfig(use_dla=True)).",
                )
            parser.set_flag(member)
        if self._plugin_instancenorm and has_flags:  # Without flags it is a plugin anyway.
            parser.clear_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)

    def _set_config(self, builder: Any, parser: Any) -> None:
        if self._config is None:
            return
        require("parser_builder_config", "config")
        config = self._config(builder, None) if callable(self._config) else self._config
        if not parser.set_builder_config(config):
            raise UsageError("The ONNX parser does not take that builder configuration.")


def _parse_model(parser: Any, model: Any, stack: ExitStack) -> bool:
    """Parse an `onnx.ModelProto` of any size; above the format's limit through a file, which
    `stack` removes.
    """
    try:
        content = model.SerializeToString()
    except Exception as error:  # protobuf's implementations differ in the class that they raise
        G_LOGGER.verbose(f"The model goes to TensorRT through a file: {error}")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="polygraphy-"))
        path = str(Path(folder, "model.onnx"))
        save_model(model, path)
        return bool(parser.parse_from_file(path))
    return bool(parser.parse(content))


@mod.export(funcify=True)
class NetworkFromOnnxBytes(_NetworkFromOnnx):
    """Parses a serialised ONNX model into a TensorRT network."""

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
        """Take the bytes, or a loader that makes them; the rest says how they are parsed."""
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

    def call_impl(self) -> tuple[Any, Any, Any]:
        """Return the builder, the network and the parser.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            ModelError: the bytes are no ONNX model.
            BackendError: there is no GPU, or TensorRT does not support the model.
        """
        content = evaluate(self._model_bytes)

        def parsed() -> Any:
            return self._parsed(
                lambda parser: bool(parser.parse(content)),
                lambda: parse_onnx(content),
                "the ONNX model",
            )

        parts = parsed()
        self._remember(parts, parsed, "")
        return parts[0], parts[1], parts[2]


@mod.export(funcify=True)
class NetworkFromOnnxModel(_NetworkFromOnnx):
    """Parses an ONNX model in memory, of any size, into a TensorRT network.

    A model of more than 2 GiB cannot be serialised: it reaches TensorRT through a temporary file,
    with its weights beside that.
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
        """Take the `onnx.ModelProto`, or a loader that makes it; the rest says how it is parsed."""
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

    def call_impl(self) -> tuple[Any, Any, Any]:
        """Return the builder, the network and the parser.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            FileError: there is no room for a temporary file.
            BackendError: there is no GPU, or TensorRT does not support the model.
        """
        model = evaluate(self._model)

        def parsed() -> Any:
            with ExitStack() as files:
                return self._parsed(
                    lambda parser: _parse_model(parser, model, files),
                    lambda: model,
                    "the ONNX model",
                )

        parts = parsed()
        self._remember(parts, parsed, "")
        return parts[0], parts[1], parts[2]


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
        """Name the file, or a loader that names it; the rest says how it is parsed."""
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

    def call_impl(self) -> tuple[Any, Any, Any]:
        """Return the builder, the network and the parser.

        Raises:
            MissingDependencyError: TensorRT is not installed.
            FileError: the file is missing or empty.
            ModelError: it is no ONNX model.
            BackendError: there is no GPU, or TensorRT does not support the model.
        """
        path = str(readable_file(evaluate(self._path), "Model"))

        def parsed() -> Any:
            return self._parsed(
                lambda parser: bool(parser.parse_from_file(path)),
                lambda: load_onnx(path),
                path,
            )

        parts = parsed()
        self._remember(parts, parsed, path)
        return parts[0], parts[1], parts[2]
