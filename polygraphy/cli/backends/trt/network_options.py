"""Options for TensorRT networks."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.backends.trt.kinds import Members
from polygraphy.cli.declare.kinds import Script, Text, Texts
from polygraphy.cli.declare.kinds.base import Repeated
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.onnx import Outputs


class _Scripts(Repeated):
    """One or more scripts, after one flag or after several."""

    def __init__(self, symbol: str) -> None:
        """Set the default symbol of a script."""
        super().__init__(Script(symbol))
        self.nargs = "+"

    def parse(self, words: object) -> tuple[tuple[str, str], ...]:
        """Return the path and symbol of each script."""
        listed: list[list[str]] = words  # type: ignore[assignment]
        return tuple(self.single.parse([word]) for names in listed for word in names)

    def files(self, value: Sequence[tuple[str, str]]) -> list[tuple[str, str | None]]:
        """Return the scripts with their symbols."""
        return list(value)


@option_group
class TrtPluginOptions(Options):
    """TensorRT Plugins: layers from other libraries."""

    plugins: tuple[str, ...] = option(
        "--plugins",
        feeds="LoadPlugins.plugins",
        reads="Library",
        help="Shared libraries with plugins, loaded before everything else.",
    )


@option_group
class TrtParserOptions(Options):
    """TensorRT Parser: conversion of an ONNX model to a network."""

    onnx_flags: tuple[str, ...] = option(
        "--onnx-flags",
        feeds="NetworkFromOnnxPath.flags",
        kind=Members("OnnxParserFlag", "FLAG", nargs="+"),
        help="Flags for the ONNX parser, such as native_instancenorm.",
    )
    plugin_instancenorm: bool = option(
        "--plugin-instancenorm",
        feeds="NetworkFromOnnxPath.plugin_instancenorm",
        help="Use the plugin for InstanceNormalization instead of the layers of TensorRT.",
    )
    enable_uint8_asymmetric_quantization_dla: bool = option(
        "--enable-uint8-asymmetric-quantization-dla",
        feeds="NetworkFromOnnxPath.flags",
        help="Enable asymmetric uint8 quantization on DLA; an alias of --onnx-flags"
        " enable_uint8_and_asymmetric_quantization_dla.",
    )


@option_group
class TrtNetworkOptions(Options):
    """TensorRT Network: its outputs, and changes to it."""

    trt_outputs: tuple[str, ...] = option(
        "--trt-outputs",
        feeds="ModifyNetworkOutputs.outputs",
        kind=Outputs("NAME"),
        help="Tensors of the network to mark as outputs, instead of its current outputs. Names may"
        " be patterns; '*' means every tensor.",
    )
    trt_exclude_outputs: tuple[str, ...] = option(
        "--trt-exclude-outputs",
        feeds="ModifyNetworkOutputs.exclude_outputs",
        kind=Texts("NAME"),
        help="Tensors of the network to exclude from the outputs; names may be patterns.",
    )
    trt_outputs_by_type: tuple[str, ...] = option(
        "--trt-outputs-by-type",
        feeds="ModifyNetworkOutputs.mark_layer_types",
        kind=Texts("TYPE"),
        help="Types of layers, such as convolution, whose tensors become outputs.",
    )
    trt_network_func_name: str | None = option(
        "--trt-network-func-name",
        "--trt-network-func",
        feeds=("inspect_model.network_func", "draw_model.network_func"),
        kind=Text("NAME"),
        help="Name of the function in a network script.",
        otherwise="load_network",
    )
    trt_network_postprocess_script: tuple[tuple[str, str], ...] = option(
        "--trt-network-postprocess-script",
        "--trt-npps",
        feeds="PostprocessNetwork.func",
        reads="Script",
        kind=_Scripts("postprocess"),
        help="Python scripts with functions that change the network. Each function receives the"
        " argument network.",
        otherwise="postprocess",
    )
    decomposable_attentions: bool = option(
        "--decomposable-attentions",
        help="Allow attention layers to be decomposed if no fused kernel supports them.",
    )
    mark_debug: tuple[str, ...] = option(
        "--mark-debug",
        feeds="MarkDebug.mark_debug",
        kind=Texts("NAME"),
        help="Tensors to show as outputs, without changing the computation of the engine.",
    )
    mark_unfused_tensors_as_debug_tensors: bool = option(
        "--mark-unfused-tensors-as-debug-tensors",
        feeds=(
            "NetworkFromOnnxPath.mark_unfused_tensors_as_debug_tensors",
            "CreateNetwork.mark_unfused_tensors_as_debug_tensors",
        ),
        help="Show all tensors that remain after layer fusion as outputs.",
    )
