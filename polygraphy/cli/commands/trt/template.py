"""The commands `template trt-network` and `template trt-config`."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import RunnerModel
from polygraphy.cli.backends.trt.checks import CONFIG_CALLS, CONFIG_GROUPS, NETWORK_GROUPS
from polygraphy.cli.backends.trt.context import config_of, network_of
from polygraphy.cli.backends.trt.model import TrtNetwork
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.commands.command import Program
from polygraphy.cli.commands.template.onnx import TemplateCommand, TemplateOptions
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, non_default_flags, non_default_flags_for_calls
from polygraphy.cli.shared.data import DataOptions, data_of, data_step
from polygraphy.cli.shared.model import ModelOptions, model_type, split_symbol
from polygraphy.cli.shared.onnx import (
    OnnxLoadOptions,
    OnnxModel,
    OnnxShapeOptions,
    OutputOptions,
    onnx_of,
)
from polygraphy.codegen.source import Source, Step, quote_word


class _TemplateCommand(TemplateCommand):
    """Base class of commands that write a script about TensorRT, which is not run."""

    def _model_path(self, values: Values) -> str | None:
        """Return the path of the model; None if there is none.

        Raises:
            CommandLineError: the template cannot start from models of its type.
        """
        options = values[ModelOptions]
        kind = model_type(options) or "onnx"
        if options.model_file is not None and kind not in ("onnx", "trt-network-script"):
            raise CommandLineError(
                f"{options.model_file}: a network cannot be created from a model of type"
                f" {kind}. Use an ONNX model or a network script."
            )
        return options.model_file


class TemplateTrtNetworkCommand(_TemplateCommand):
    """Write a script that defines a TensorRT network with the network API: a new network, or one
    that starts from a model. Use the script as a model: polygraphy run SCRIPT --trt.
    """

    name = "template trt-network"
    groups = (
        ModelOptions,
        TemplateOptions,
        OutputOptions,
        OnnxLoadOptions,
        OnnxShapeOptions,
        TrtPluginOptions,
        *NETWORK_GROUPS,
        TrtPrecisionOptions,
    )

    def program(self, values: Values) -> Program:
        """Return the script that defines a network."""
        model = self._model_path(values)
        is_script = model_type(values[ModelOptions]) == "trt-network-script"
        parses = model is not None and not is_script
        given_names = [
            *non_default_flags(values, [ModelOptions], besides=["MODEL", "--model-type"]),
            *non_default_flags_for_calls(values, ["CreateConfig"]),
        ]
        warn_of_idle_flags(given_names, ", because the configuration decides it")
        onnx = onnx_of(values) if parses else OnnxModel()
        network = network_of(values, is_script=is_script, is_empty=model is None)
        path = None if model is None else split_symbol(model)[0]
        is_brief = onnx.is_as_saved and not network.steps
        return Program(
            "template_trt_network.py.j2",
            "Create a TensorRT network with the network API"
            + (f", starting from {quote_word(path)}." if path is not None else "."),
            model=path,
            is_parsed=parses,
            before=[] if is_brief else _steps_before_network(onnx, network, model),
            start=network.of(None if model is None else RunnerModel.path) if is_brief else None,
        )


def _steps_before_network(onnx: OnnxModel, network: TrtNetwork, model: str | None) -> list[Step]:
    """Return the statements up to the network that the script starts from."""
    if onnx.is_as_saved:
        return network.steps_from(None if model is None else RunnerModel.path, is_path=True)
    load = Step("load_model", onnx.loader(RunnerModel.path))
    return [load, *network.steps_from(Source("load_model"), is_path=False)]


class TemplateTrtConfigCommand(_TemplateCommand):
    """Write a script that creates a TensorRT builder configuration. Use it with polygraphy run
    MODEL --trt --trt-config-script SCRIPT.
    """

    name = "template trt-config"
    groups = (ModelOptions, TemplateOptions, *CONFIG_GROUPS, DataOptions)

    def program(self, values: Values) -> Program:
        """Return the script that creates a builder configuration."""
        model = self._model_path(values)
        is_script = model_type(values[ModelOptions]) == "trt-network-script"
        used = ["--fp32", *non_default_flags_for_calls(values, CONFIG_CALLS)]
        unused = non_default_flags(values, (TrtPrecisionOptions, TrtTacticOptions), besides=used)
        warn_of_idle_flags(unused, ", because it belongs to the network or the build")
        config = config_of(values)
        path = None if model is None or is_script else split_symbol(model)[0]
        data = data_of(values[DataOptions], values[ModelOptions].input_shapes)
        calibration = config.model_calibration
        return Program(
            "template_trt_config.py.j2",
            "Create a TensorRT builder configuration"
            + (f" for {quote_word(path)}." if path is not None else "."),
            model=path,
            before=(
                []
                if calibration is None
                else [*data_step(data, calibrates=True), Step("calibrator", calibration)]
            ),
            config=config.call or config.make,
        )
