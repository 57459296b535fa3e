"""The commands `template trt-network` and `template trt-config`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.backends.trt.checks import CONFIG_CALLS, CONFIG_GROUPS
from polygraphy.cli.backends.trt.context import config_of, network_of, with_build_defaults
from polygraphy.cli.backends.trt.network_groups import NETWORK_GROUPS
from polygraphy.cli.backends.trt.network_options import TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtPrecisionOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.commands.template.template_options import TemplateOptions
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_feeding, flags_given
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.data_context import data_of
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.model import ModelOptions, model_type, split_symbol
from polygraphy.cli.shared.onnx import OnnxLoadOptions, OnnxShapeOptions, OutputOptions
from polygraphy.cli.shared.onnx_context import onnx_of, with_defaults
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.parts.onnx_model import OnnxModel
from polygraphy.codegen.parts.trt_model import TrtModel
from polygraphy.codegen.scripts.template_trt import TemplateConfigScript, TemplateNetworkScript


class _TemplateCommand(Command):
    """Writes a script, which is not run."""

    def destination(self, values: Values) -> str | None:
        """Return where the script goes.

        Raises:
            CommandLineError: that is not given.
        """
        output = values[TemplateOptions].output
        if output is None:
            raise CommandLineError(
                "where to write the script is not given. Add -o PATH, or -o - for standard output.",
                f"polygraphy {self.name}",
            )
        return output

    def _check_model(self, values: Values) -> str | None:
        """Return the path of the model; None where there is none.

        Raises:
            CommandLineError: the template cannot start from models of its type.
        """
        options = values[ModelOptions]
        kind = model_type(options) or "onnx"
        if options.model_file is not None and kind not in ("onnx", "trt-network-script"):
            raise CommandLineError(
                f"{options.model_file}: a network cannot start from a model of type {kind}. Give an"
                " ONNX model, or a script that makes a network.",
                f"polygraphy {self.name}",
            )
        return options.model_file


class TemplateNetworkCommand(_TemplateCommand):
    """Writes a script that makes a network."""

    name = "template trt-network"
    description = (
        "Write a script that makes a TensorRT network with the network API: a new one, or one that"
        " starts from a model. The script is then used as a model: polygraphy run SCRIPT --trt."
    )
    groups = (
        ModelOptions,
        TemplateOptions,
        OutputOptions,
        OnnxLoadOptions,
        OnnxShapeOptions,
        TrtPluginOptions,
        *NETWORK_GROUPS,
        TrtPrecisionOptions,
        ReportOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the script."""
        usage = f"polygraphy {self.name}"
        model = self._check_model(values)
        is_script = model_type(values[ModelOptions]) == "trt-network-script"
        parses = model is not None and not is_script
        given = [
            *flags_given(values, [ModelOptions], besides=["MODEL", "--model-type"]),
            *flags_feeding(values, ["CreateConfig"]),
        ]
        if given:
            warn(f"{', '.join(given)}: without effect, because the configuration decides it.")
        whole = with_build_defaults(with_defaults(values))
        onnx = onnx_of(whole, usage, is_loaded=parses) if parses else OnnxModel()
        return TemplateNetworkScript(
            command=words,
            model=None if model is None else split_symbol(model)[0],
            is_parsed=parses,
            onnx=onnx,
            trt=TrtModel(
                network=network_of(whole, usage, is_script=is_script, is_empty=model is None)
            ),
            log=log_of(values),
        ).render()


class TemplateConfigCommand(_TemplateCommand):
    """Writes a script that makes a builder configuration."""

    name = "template trt-config"
    description = (
        "Write a script that makes a TensorRT builder configuration. The script is then used with"
        " polygraphy run MODEL --trt --trt-config-script SCRIPT."
    )
    groups = (
        ModelOptions,
        TemplateOptions,
        *CONFIG_GROUPS,
        DataOptions,
        ReportOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the script."""
        usage = f"polygraphy {self.name}"
        model = self._check_model(values)
        is_script = model_type(values[ModelOptions]) == "trt-network-script"
        used = ["--fp32", *flags_feeding(values, CONFIG_CALLS)]
        unused = flags_given(values, (TrtPrecisionOptions, TrtTacticOptions), besides=used)
        if unused:
            warn(
                f"{', '.join(unused)}: without effect, because that belongs to the network, or to"
                " the build."
            )
        return TemplateConfigScript(
            command=words,
            model=model if model is None or is_script else split_symbol(model)[0],
            config=config_of(with_build_defaults(values), usage),
            data=data_of(values[DataOptions], values[ModelOptions].input_shapes, usage),
            log=log_of(values),
        ).render()
