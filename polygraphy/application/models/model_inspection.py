"""Shows what models consist of: all of it, or one thing of ONNX models (tensors, sparse weights,
differences, edits).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy.application.models.quantized_tensors import show_quantization
from polygraphy.binding import UnboundPortError, function_for, resolve
from polygraphy.domain.errors import FileError, UnknownNameError, UsageError
from polygraphy.domain.model import EVERYTHING, Detail, Model, ModelSource
from polygraphy.domain.model.description import select_tensors, tensor_uses, unbounded_operands
from polygraphy.domain.model.difference import Outline, differences, edit_between
from polygraphy.domain.model.source import kind_of, technology_of
from polygraphy.domain.model.sparsity import GROUP, WeightSparsity, dense_groups, prunable_weights
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import (
    ModelReports,
    describe_file,
    find_quantized_tensors,
    first_violation,
    load_onnx,
    outline_of,
    place_nodes,
)
from polygraphy.ports.reporting import model_page, serve_page
from polygraphy.ports.storage import read_text, write_text

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import OutputRow


_SHOWN = ("layers", "attrs", "weights", "quantization")
_LOADED = "What was loaded"


def inspect_model(
    *models: Any,
    show: Sequence[str] = (),
    stats: bool = False,
    list_unbounded_dds: bool = False,
    model_type: str | None = None,
    display_as: str | None = None,
    external_data_dir: str | None = None,
    ignore_external_data: bool = False,
    infer_shapes: bool = False,
    allow_onnxruntime: bool | None = None,
    network_func: str | None = None,
    tensor_info: str | None = None,
    checkpoint: str | None = None,
    tf_outputs: Sequence[str] = (),
    optimize_graph: bool = False,
    providers: Sequence[Any] | None = None,
    provider_libraries: Mapping[str, str] | None = None,
    reference: str | None = None,
    inputs: Sequence[str] = (),
) -> None:
    """Show models: inputs, outputs, and the requested details.

    Args:
        models: the model files; or networks or engines of TensorRT, or loaders that return them.
        show: any of ``layers``, ``attrs`` (of the shown layers), ``weights`` (their elements) and
            ``quantization`` (the tensors that are stored in few bits).
        stats: whether sizes and costs are shown.
        list_unbounded_dds: whether to list tensors whose elements determine, without a limit, the
            sizes of other tensors.
        model_type: ``onnx``, ``engine`` or ``trt-network-script``, or for TensorFlow ``frozen``,
            ``keras``, ``saved-model`` or ``ckpt`` (default: by the file extension).
        display_as: ``trt`` to show an ONNX model as a TensorRT network.
        external_data_dir: folder of the external weights of an ONNX model, if it is not the folder
            of the model.
        ignore_external_data: whether weights in other files are not read.
        infer_shapes: whether to infer shapes that an ONNX model does not declare.
        allow_onnxruntime: whether ONNX Runtime may infer them (default: True).
        network_func: name of the function in a network script (default: ``load_network``).
        tensor_info: saved outputs whose statistics are shown with the layers of an engine.
        checkpoint: name of the checkpoint, for a folder of these (default: the latest).
        tf_outputs: tensors of a TensorFlow graph that become its outputs; ``*`` for all.
        optimize_graph: whether to optimize a TensorFlow graph first.
        providers: execution providers of ONNX Runtime in order of priority; the provider of each
            node is shown (default: not shown).
        provider_libraries: plugins with additional providers; see `SessionFromOnnx`.
        reference: the float model, to measure the loss of quantized weights.
        inputs: files of input data, to measure the loss of quantized activations.

    Raises:
        FileError: a file is missing or cannot be read.
        ModelError: a file is not a model of its type.
        BackendError: ONNX Runtime cannot load the model, or start a provider.
        UsageError: a choice does not exist, or is not available for models of this type.

    If one of several models cannot be read, the others are shown before the error is raised.
    """
    showing = _ModelViewer(_detail_of(show), stats=stats, unbounded=list_unbounded_dds)
    lists_tensors = "quantization" in show or reference is not None or bool(inputs)
    unread: list[str] = []
    for model in models:
        is_file = isinstance(model, (str, PathLike))
        source = ModelSource(
            str(model) if is_file else _LOADED,
            loader=None if is_file else model,
            external_data_dir=external_data_dir,
            ignore_external_data=ignore_external_data,
            infer_shapes=infer_shapes,
            allow_onnxruntime=allow_onnxruntime,
            network_func=network_func,
            tensor_info=tensor_info,
            checkpoint=checkpoint,
            outputs=tuple(tf_outputs),
            optimizes=optimize_graph,
        )
        try:
            showing.show(source, model_type, display_as)
            if display_as is None and is_file:
                has_graph = technology_of(kind_of(str(model), model_type)) == "onnx"
                tensors = find_quantized_tensors(str(model)) if has_graph else []
                show_quantization(str(model), tensors, reference, inputs, is_complete=lists_tensors)
            if providers:
                _show_placements(model, providers, provider_libraries, is_complete="layers" in show)
        except FileError as error:
            if len(models) == 1:
                raise
            G_LOGGER.log(str(error), G_LOGGER.CRITICAL, error_ok=True)
            unread.append(source.path)
    if unread:
        raise FileError(
            f"{len(unread)} of {len(models)} models could not be read: {', '.join(unread)}."
        )


def _show_placements(
    model: Any,
    providers: Sequence[Any],
    libraries: Mapping[str, str] | None,
    *,
    is_complete: bool,
) -> None:
    """Log the execution provider of each node."""
    if not isinstance(model, (str, PathLike)) or kind_of(str(model), None) != "onnx":
        raise UsageError(
            "Execution providers only run ONNX models.", hint="Convert it: polygraphy convert."
        )
    placements = place_nodes(load_onnx(str(model)), providers, libraries)
    resolve(ModelReports).placements(placements, is_complete=is_complete)


def describe_model(
    model: Any, *, show: Sequence[str] = ("layers", "attrs"), model_type: str | None = None
) -> Any:
    """Return a description for `inspect_model`; a `Model` for ONNX,
    which notebooks show as a table.

    Args:
        model: the model file; or a network or an engine of TensorRT, or a loader that returns one.
        show: the parts to read in addition to inputs and outputs: any of ``layers``, ``attrs`` and
            ``weights``.
        model_type: the type of the model, as for `inspect_model` (default: by the file extension).

    Raises:
        FileError: the file is missing or cannot be read.
        ModelError: the file is not a model of its type.
        UsageError: a choice does not exist.
    """
    is_file = isinstance(model, (str, PathLike))
    source = ModelSource(str(model) if is_file else _LOADED, loader=None if is_file else model)
    return read_model(source, _detail_of(show), model_type)


def read_model(
    source: ModelSource,
    detail: Detail,
    model_type: str | None = None,
    display_as: str | None = None,
) -> Any:
    """Return the description of a model of any type.

    Raises:
        UsageError: models of this type cannot be read.
        FileError: the file is missing or cannot be read.
        ModelError: the file is not a model of its type.
    """
    if source.loader is not None:
        return function_for(describe_file, "tensorrt")(source, detail)
    kind = kind_of(source.path, model_type)
    technology = technology_of(kind) if display_as is None else "tensorrt"
    try:
        describe = function_for(describe_file, technology)
    except UnboundPortError:
        raise UsageError(f"{source.path}: models of type {kind} cannot be read here.") from None
    return describe(evolve(source, kind=kind), detail)


class _ModelViewer:
    """Shows one model after the other."""

    def __init__(self, detail: Detail, *, stats: bool, unbounded: bool) -> None:
        """Set the details to show."""
        self._detail = detail
        self._stats = stats
        self._unbounded = unbounded

    def show(self, source: ModelSource, model_type: str | None, display_as: str | None) -> None:
        """Show a model."""
        reports = resolve(ModelReports)
        if _is_silent(source, model_type):
            reports.loading(source.path)
        if self._stats and _is_built(source, model_type, display_as):
            self._show_built(source, model_type, display_as)
            return
        counts_shown = self._stats and source.infer_shapes
        read = evolve(
            self._detail,
            layers=self._detail.layers or self._unbounded or counts_shown,
            attrs=self._detail.attrs or counts_shown,
        )
        description = read_model(source, read, model_type, display_as)
        reports.model(_reduce_detail(description, self._detail), self._detail)
        if self._unbounded:
            reports.show_unbounded_tensors(
                unbounded_operands(_require_model(description, source).graph)
            )
        if self._stats:
            if not counts_shown:
                # Statistics require inferred shapes, which the shown description lacks.
                model_source = evolve(source, infer_shapes=True, allow_onnxruntime=False)
                detail = Detail(layers=True, attrs=True)
                description = read_model(model_source, detail, model_type, display_as)
            from polygraphy.domain.model.statistics import statistics_of

            reports.statistics(statistics_of(_require_model(description, source)))

    def _show_built(
        self, source: ModelSource, model_type: str | None, display_as: str | None
    ) -> None:
        """Log a network or engine with its statistics; it is built once."""
        from polygraphy.domain.model.engine import statistics_of_built

        reports, detail = resolve(ModelReports), self._detail
        whole_detail = evolve(detail, layers=True, sizes=True)
        described = read_model(source, whole_detail, model_type, display_as)
        shown_described = described if detail.layers else evolve(described, layers=())
        if self._unbounded:
            _require_model(described, source)  # Raises an error, because this is a built engine.
        reports.model(shown_described, detail)
        reports.statistics(statistics_of_built(described))


def _reduce_detail(description: Any, detail: Detail) -> Any:
    """Return a description reduced to the requested details."""
    if not isinstance(description, Model) or detail.layers:
        return description
    return evolve(
        description,
        graph=evolve(description.graph, nodes=(), tensors={}),
        functions=tuple(evolve(function, nodes=()) for function in description.functions),
    )


def _is_built(source: ModelSource, model_type: str | None, display_as: str | None) -> bool:
    """Return whether TensorRT must load the model: a network or an engine."""
    if source.loader is not None or display_as is not None:
        return True
    return technology_of(kind_of(source.path, model_type)) == "tensorrt"


def _is_silent(source: ModelSource, model_type: str | None) -> bool:
    """Return whether loading the model prints no message of its own."""
    if source.loader is not None:
        return False
    kind = kind_of(source.path, model_type)
    return kind != "engine" and technology_of(kind) != "tensorflow"


def _require_model(description: Any, source: ModelSource) -> Model:
    """Return the description of an ONNX model; raise UsageError for another kind."""
    if not isinstance(description, Model):
        raise UsageError(
            f"{source.path}: data-dependent shapes and these statistics are available for ONNX"
            " models only."
        )
    return description


def _detail_of(show: Sequence[str]) -> Detail:
    """Return the details to show; raise UnknownNameError for an unknown one."""
    for word in show:
        if word not in _SHOWN:
            raise UnknownNameError("Detail", word, _SHOWN)
    return Detail(**{word: word in show for word in _SHOWN[:3]})


def draw_model(
    path: str,
    output: str | None = None,
    *,
    port: int = 8000,
    weights: bool = False,
    model_type: str | None = None,
    display_as: str | None = None,
    external_data_dir: str | None = None,
    ignore_external_data: bool = False,
    infer_shapes: bool = True,
    allow_onnxruntime: bool | None = None,
    network_func: str | None = None,
    checkpoint: str | None = None,
    tf_outputs: Sequence[str] = (),
    optimize_graph: bool = False,
    report: str | None = None,
) -> None:
    """Save an interactive page with the graph of a model and the contents of each node.

    The page is a single file, which a browser shows without network access.

    Args:
        path: the model file.
        output: path for the page. By default, a local server shows the page to browsers on this
            machine until the user interrupts.
        port: the TCP port of the server; 0 for any free port.
        weights: whether the page shows statistics of weights: range, mean and number of zeros.
        model_type: the type of the model (default: by the file extension).
        display_as: ``trt`` to show an ONNX model as a TensorRT network.
        external_data_dir: folder of the external weights of an ONNX model, if it is not the folder
            of the model.
        ignore_external_data: whether weights in other files are not read.
        infer_shapes: whether to infer shapes that an ONNX model does not declare.
        allow_onnxruntime: whether ONNX Runtime may infer them (default: True).
        network_func: name of the function in a network script (default: ``load_network``).
        checkpoint: name of the checkpoint, for a folder of these (default: the latest).
        tf_outputs: tensors of a TensorFlow graph that become its outputs; ``*`` for all.
        optimize_graph: whether to optimize a TensorFlow graph first.
        report: a verdict document, saved with ``--report PATH.json``; nodes are colored by its
            errors (default: by their operators).

    Raises:
        FileError: the model is missing or cannot be read, or the page cannot be written.
        ModelError: the file is not a model of its type.
        UsageError: the port is taken, or a model of this type cannot be drawn.
    """
    source = ModelSource(
        path,
        external_data_dir=external_data_dir,
        ignore_external_data=ignore_external_data,
        infer_shapes=infer_shapes,
        allow_onnxruntime=allow_onnxruntime,
        network_func=network_func,
        checkpoint=checkpoint,
        outputs=tuple(tf_outputs),
        optimizes=optimize_graph,
    )
    from polygraphy.domain.model.drawing import draw, model_to_draw
    from polygraphy.domain.model.statistics import statistics_of

    errors = None if report is None else _rows_by_output(report)
    reports = resolve(ModelReports)
    reports.loading(path)
    detail = Detail(layers=True, attrs=True, weights=weights)
    model = model_to_draw(read_model(source, detail, model_type, display_as))
    if model is None:
        raise UsageError(f"{path}: models of this type cannot be drawn.")
    page = model_page(model, draw(model), statistics_of(model), errors)
    if output is None:
        serve_page(page, port, reports.page_served)
    else:
        write_text(output, page)
        reports.page_saved(output)


def _rows_by_output(path: str) -> dict[str, OutputRow]:
    """Return the output rows of a report by output name."""
    from polygraphy.domain.report.document import rows_in

    try:
        return rows_in(json.loads(read_text(path)))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}.") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def inspect_outputs(path: str, names: Sequence[str] | None = None) -> None:
    """List the tensors of an ONNX model that can be made outputs: names, types, producers.

    Args:
        path: the model.
        names: names and patterns of the tensors to list (default: all).

    Raises:
        FileError: the file is missing or cannot be read.
        ModelError: the file is not an ONNX model.
        UnknownNameError: no tensor of the model has such a name.
    """
    reports = resolve(ModelReports)
    reports.loading(path)
    source = ModelSource(path, infer_shapes=True, allow_onnxruntime=False)
    model = function_for(describe_file, "onnx")(source, Detail(layers=True))
    uses = tensor_uses(model.graph)
    if names is not None:
        uses = select_tensors(uses, names)
    reports.tensors(uses)


def inspect_sparsity(
    path: str, external_data_dir: str | None = None, ignore_external_data: bool = False
) -> None:
    """Report which eligible weights of an ONNX model are 2:4 sparse.

    Args:
        path: the model.
        external_data_dir: folder of its external weights, if it is not the folder of the model.
        ignore_external_data: whether weights in other files are skipped.

    Raises:
        FileError: the file, or one with its weights, is missing or cannot be read.
        ModelError: the file is not an ONNX model.
    """
    reports = resolve(ModelReports)
    reports.loading(path)
    source = ModelSource(
        path, external_data_dir=external_data_dir, ignore_external_data=ignore_external_data
    )
    model = function_for(describe_file, "onnx")(source, EVERYTHING)
    reports.sparsity(
        [
            WeightSparsity(
                name=prunable_weight.weight.name,
                axis=prunable_weight.axis,
                groups=prunable_weight.weight.values.size // GROUP,
                dense=dense_groups(prunable_weight.weight.values, prunable_weight.axis),
            )
            for prunable_weight in prunable_weights(model.graph)
            if prunable_weight.weight.values is not None
        ]
    )


def compare_models(reference: str, candidate: str) -> bool:
    """Report the differences of two ONNX models in inputs, outputs, nodes, attributes and
    initializers; return whether they are equal.

    Args:
        reference: the expected model.
        candidate: the model to compare with it.

    Returns:
        Whether they are the same.

    Raises:
        FileError: a file is missing or cannot be read.
        ModelError: a file is not an ONNX model.
    """
    reports = resolve(ModelReports)
    models = []
    for path in (reference, candidate):
        reports.loading(path)
        models.append(function_for(describe_file, "onnx")(ModelSource(path), EVERYTHING))
    scales = differences(*models)
    if any(difference.what == "Initializer" for difference in scales):
        from polygraphy.domain.quantization.listing import list_quantized_tensors, name_scales

        tensors = list_quantized_tensors(models[1].graph)
        if tensors and not list_quantized_tensors(models[0].graph):
            # Only one model is quantized, which explains the differences.
            reports.show_quantization(tensors, is_complete=False)
        scales = name_scales(scales, models[0].graph, models[1].graph)
    reports.differences(scales)
    return not scales


def show_original(model: Any) -> Outline:
    """Show a short summary of a model before it is edited, and return its outline.

    Args:
        model: an ``onnx.ModelProto``.

    Returns:
        The outline with which `show_edited` compares the edited model, because edits change a model
        in place.
    """
    outline: Outline = outline_of(model)
    resolve(ModelReports).outline("Original Model", outline)
    return outline


def show_edited(original: Outline, model: Any, *, checks_nodes: bool = False) -> None:
    """Log a short summary of an edited model with the nodes and weights added and removed.

    Args:
        original: the return value of `show_original`.
        model: the edited model.
        checks_nodes: whether to warn of a model that violates the ONNX specification.
    """
    outline: Outline = outline_of(model)
    reports = resolve(ModelReports)
    reports.outline("New Model", outline)
    reports.edit(edit_between(original, outline))
    if checks_nodes and (violation := first_violation(model)):
        G_LOGGER.warning(
            f"The model still violates the ONNX specification: {violation} `polygraphy check lint`"
            " lists the problems."
        )
