"""The command `inspect model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.backends.built_in import InspectedModel, backends_by_name
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    InspectedModelOptions,
    ModelDetailOptions,
    PageOptions,
    details_to_show,
)
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, call_of, non_default_flags
from polygraphy.cli.shared.model import ModelOptions, TfLoadOptions, model_type
from polygraphy.cli.shared.onnx import OnnxShapeOptions
from polygraphy.cli.shared.providers import OnnxrtProviderOptions
from polygraphy.codegen.source import Call, quote_word
from polygraphy.domain.tensors.naming import join_words


def page_of(values: Values, decided: Mapping[str, Any]) -> Call | None:
    """Return the call that writes or serves a page; None unless a page is requested.

    Args:
        values: the options of `inspect model`.
        decided: arguments of loading the model that no option feeds.

    Raises:
        CommandLineError: there are several models, or the page would replace the model.
    """
    page, paths = values[PageOptions], values[InspectedModelOptions].paths
    serves = page.visual and page.save_visual is None
    if not serves and page.save_visual is None:
        return None
    if len(paths) > 1:
        raise CommandLineError(
            f"a page shows one model, but there are {len(paths)}. Save a page for each model."
        )
    unused = non_default_flags(
        values, [ModelDetailOptions], besides=("--show", "--mode", "--show-weights")
    )
    warn_of_idle_flags(unused, ", because a page is created instead of text")
    weights = "weights" in details_to_show(values[ModelDetailOptions]) or None
    if serves:
        return call_of("draw_model", values, paths[0], weights=weights, **decided)
    return call_of(
        "draw_model", values, paths[0], page.save_visual, port=None, weights=weights, **decided
    )


_INSPECTIONS = [
    backend.inspection() for backend in backends_by_name().values() if backend.inspection
]
"""Inspections of the available backends."""


class InspectModelCommand(Command):
    """Show the contents of models: inputs, outputs and the numbers of weights and nodes; with
    --show, also nodes, attributes and weights; with --visual, a graph in the browser; with
    --providers, which execution provider of ONNX Runtime runs which node.
    """

    name = "inspect model"
    groups = (
        InspectedModelOptions,
        ModelDetailOptions,
        PageOptions,
        OnnxShapeOptions,
        ExternalDataOptions,
        TfLoadOptions,
        OnnxrtProviderOptions,
        *(group for inspection in _INSPECTIONS for group in inspection.groups),
    )

    def program(self, values: Values) -> Program:
        """Return the program that shows the models."""
        models, detail = values[InspectedModelOptions], values[ModelDetailOptions]
        show, graph = details_to_show(detail), values[TfLoadOptions]
        self._check(values, show)
        built = self._inspect_built(values)
        decided = {
            "model_type": models.model_type or _type_of_folders(models.paths, graph.ckpt),
            "checkpoint": graph.ckpt,
            "tf_outputs": list(graph.tf_outputs) or None,
            "optimize_graph": graph.freeze_graph or None,
        }
        if not values[OnnxShapeOptions].shape_inference:
            decided["allow_onnxruntime"] = None
        page = page_of(values, decided)
        if page is not None:
            return Program("show.py.j2", f"Draw {quote_word(models.paths[0])}.", call=page)
        if built is None:
            call = call_of("inspect_model", values, *models.paths, show=show or None, **decided)
        else:
            details = Values({ModelDetailOptions: detail})
            call = call_of("inspect_model", details, built.shown, show=show or None)
        return Program(
            "show.py.j2",
            f"Show the contents of {join_words([quote_word(path) for path in models.paths])}.",
            call=call,
            model=None if built is None else built.model,
            before=() if built is None else built.steps,
        )

    def _check(self, values: Values, show: list[str]) -> None:
        """Raise CommandLineError for contradicting options; warn of those without effect."""
        if values[ModelDetailOptions].combine_tensor_info is not None and "layers" not in show:
            raise CommandLineError(
                "argument --combine-tensor-info: layers are not shown. Add --show layers."
            )
        for inspection in _INSPECTIONS:
            inspection.warn(values, values[InspectedModelOptions].paths)

    def _inspect_built(self, values: Values) -> InspectedModel | None:
        """Return the model as a backend builds it, with the statements for that, or None.
        The result is None if no backend is selected.

        Raises:
            CommandLineError: there are several models, or nothing can be made of it.
        """
        models, page = values[InspectedModelOptions], values[PageOptions]
        for inspection in _INSPECTIONS:
            flags = ", ".join(
                non_default_flags(values, inspection.groups, besides=inspection.besides)
            )
            if not flags:
                continue
            if len(models.paths) != 1:
                raise CommandLineError(
                    f"{flags}: requires a single model, but there are {len(models.paths)}. Show"
                    " them one at a time."
                )
            if page.visual or page.save_visual is not None:
                raise CommandLineError(
                    f"{flags}: pages show models as stored. Remove --visual and --save-visual."
                )
            model = ModelOptions(model_file=models.paths[0], model_type=models.model_type)
            return inspection.make(values, model, models.display_as is not None)
        return None


def _type_of_folders(paths: Sequence[str], checkpoint: str | None) -> str | None:
    """Return the type of models that are folders; None for files."""
    kinds = {model_type(ModelOptions(model_file=path)) for path in paths}
    if kinds == {"saved-model"} and checkpoint is None:
        return "saved-model"
    return "ckpt" if kinds and kinds <= {"saved-model", "ckpt"} else None
