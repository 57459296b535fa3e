"""The command `inspect model`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.backends.trt.network_options import TrtNetworkOptions
from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    InspectedModelOptions,
    ModelDetailOptions,
    PageOptions,
    shown,
)
from polygraphy.cli.commands.inspect.model_page import page_of
from polygraphy.cli.commands.inspect.trt import INSPECTED_GROUPS, made_of
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.graph import TfLoadOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.model import ModelOptions, model_type
from polygraphy.cli.shared.onnx import OnnxShapeOptions
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.docstring import listed_paths, quoted
from polygraphy.codegen.render import render


class InspectModelCommand(Command):
    """Shows what models consist of."""

    name = "inspect model"
    description = (
        "Show what models consist of: inputs, outputs and the numbers of weights and nodes; with"
        " --show, nodes, their attributes and weights; with --visual, as a drawing in a browser."
    )
    groups = (
        InspectedModelOptions,
        ModelDetailOptions,
        PageOptions,
        OnnxShapeOptions,
        ExternalDataOptions,
        TfLoadOptions,
        *INSPECTED_GROUPS,
        ScriptOptions,
        ReportOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that shows the models."""
        models, detail = values[InspectedModelOptions], values[ModelDetailOptions]
        show, graph = shown(detail), values[TfLoadOptions]
        self._check(values, show)
        made = made_of(values, f"polygraphy {self.name}")
        decided = {
            "model_type": models.model_type or _type_of_folders(models.paths, graph.ckpt),
            "network_func": values[TrtNetworkOptions].trt_network_func_name,
            "checkpoint": graph.ckpt,
            "tf_outputs": list(graph.tf_outputs) or None,
            "optimize_graph": graph.freeze_graph or None,
        }
        if not values[OnnxShapeOptions].shape_inference:
            decided["allow_onnxruntime"] = None
        page = page_of(values, decided, f"polygraphy {self.name}")
        if page is not None:
            return render(
                "show.py.j2",
                f"Draw {quoted(models.paths[0])}.",
                words,
                call=page,
                log=log_of(values),
            )
        if made is None:
            call = call_of("inspect_model", values, *models.paths, show=show or None, **decided)
        else:
            details = Values({ModelDetailOptions: detail})
            call = call_of("inspect_model", details, show=show or None)
        verb = "consists" if len(models.paths) == 1 else "consist"
        return render(
            "inspect_model.py.j2",
            f"Show what {listed_paths(models.paths)} {verb} of.",
            words,
            call=call,
            made=made,
            log=log_of(values),
        )

    def _check(self, values: Values, show: list[str]) -> None:
        """Refuse what cannot be meant, and tell about what has no effect."""
        if values[ModelDetailOptions].combine_tensor_info is not None and "layers" not in show:
            raise CommandLineError(
                "argument --combine-tensor-info: layers are not shown. Add --show layers.",
                f"polygraphy {self.name}",
            )
        if values[TrtNetworkOptions].trt_network_func_name is not None and not any(
            path.partition(":")[0].endswith(".py") for path in values[InspectedModelOptions].paths
        ):
            warn("--trt-network-func: has no effect, because no model is a network script.")


def _type_of_folders(paths: Sequence[str], checkpoint: str | None) -> str | None:
    """Return the type of models that are folders, which no extension tells."""
    kinds = {model_type(ModelOptions(model_file=path)) for path in paths}
    if kinds == {"saved-model"} and checkpoint is None:
        return "saved-model"
    return "ckpt" if kinds and kinds <= {"saved-model", "ckpt"} else None
