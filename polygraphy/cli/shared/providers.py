"""Execution providers of ONNX Runtime: who runs a model, and what `inspect` shows of them."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.declare.kinds import Assignments, Provider, Providers
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class OnnxrtProviderOptions(Options):
    """ONNX Runtime Providers: execution providers, to show which one runs which node."""

    providers: tuple[Provider, ...] | None = option(
        "--providers",
        "--execution-providers",
        kind=Providers(),
        help="Execution providers in order of priority, by name or by a unique part of the name,"
        " optionally with their options.",
        otherwise="cpu",
        feeds=(
            "check_lint.providers",
            "inspect_capability.providers",
            "inspect_model.providers",
            "SessionFromOnnx.providers",
            "OnnxrtParty.providers",
        ),
    )
    provider_libraries: Mapping[str, str] | None = option(
        "--provider-library",
        kind=Assignments("NAME=LIBRARY", "openvino=onnxruntime_ep_openvino"),
        needs="--providers",
        help="Plugin libraries with additional execution providers for ONNX Runtime: paths of"
        " libraries, or modules that name them. --providers refers to each by NAME, and selects a"
        " device with NAME:device=GPU.",
        feeds=(
            "check_lint.provider_libraries",
            "inspect_capability.provider_libraries",
            "inspect_model.provider_libraries",
            "SessionFromOnnx.provider_libraries",
            "OnnxrtParty.provider_libraries",
        ),
    )
