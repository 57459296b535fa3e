"""Shows a model as a drawing in a browser."""

from __future__ import annotations

import json
from collections.abc import Sequence

from polygraphy.application.models.model_inspection import read_model
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.domain.model.drawing import draw, drawn_model
from polygraphy.domain.model.statistics import statistics_of
from polygraphy.domain.report.document import rows_in
from polygraphy.ports.models import ModelReports
from polygraphy.ports.reporting import model_page, serve_page
from polygraphy.ports.storage import read_text, write_text


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
    """Make a page that shows a model: the graph to move around in, and what each node consists of.

    The page is one file, which a browser shows without a network.

    Args:
        path: the model file.
        output: where the page is saved. Unless it is given, the page is shown to browsers on this
            machine, and to no other, until the user interrupts.
        port: the TCP port at which it is shown; 0 for any that is free.
        weights: whether the page says what the weights hold: range, mean and number of zeros.
        model_type: the type of the model (default: follows from the file extension).
        display_as: ``trt`` to show an ONNX model as the network that TensorRT makes of it.
        external_data_dir: where the files with the weights of an ONNX model are, if not beside it.
        ignore_external_data: whether weights in other files are not looked at.
        infer_shapes: whether shapes are inferred that an ONNX model does not state.
        allow_onnxruntime: whether ONNX Runtime may infer them, as it may unless this is False.
        network_func: name of the function in a network script (default: ``load_network``).
        checkpoint: name of the checkpoint, for a folder of these (default: the latest).
        tf_outputs: tensors of a TensorFlow graph that become its outputs; ``*`` for all.
        optimize_graph: whether a TensorFlow graph is made smaller first.
        report: a verdict document, as ``--report PATH.json`` saves it, by whose errors nodes are
            coloured (default: by their operators).

    Raises:
        FileError: the model is missing or cannot be read, or the page cannot be written.
        ModelError: the file is no model of its type.
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
    errors = None if report is None else _errors(report)
    reports = resolve(ModelReports)
    reports.loading(path)
    detail = Detail(layers=True, attrs=True, weights=weights)
    model = drawn_model(read_model(source, detail, model_type, display_as))
    if model is None:
        raise UsageError(f"{path}: models of this type cannot be drawn.")
    page = model_page(model, draw(model), statistics_of(model), errors)
    if output is None:
        serve_page(page, port, reports.page_served)
    else:
        write_text(output, page)
        reports.page_saved(output)


def _errors(path: str) -> dict[str, OutputRow]:
    """Return what a report says about outputs, by name."""
    try:
        return rows_in(json.loads(read_text(path)))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}.") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
