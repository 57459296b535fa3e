"""How often a model is read, and how much of it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.onnx.describe.reading import describe_file as describe_onnx
from polygraphy.application.models import quantized_tensors
from polygraphy.application.models.capability import _nodes_refused_at_run_time
from polygraphy.application.models.model_inspection import inspect_model
from polygraphy.binding import bind, resolve
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model import Detail, Model, ModelSource
from polygraphy.domain.ports import ResultStore
from polygraphy.ports.models import ModelReports, describe_file
from tests.support import classifier_files
from tests.support.diagnosis.quantized_chain import SIZE, build_quantized, plain


class Counting:
    """Reads models, and counts how often."""

    count = 0

    def __call__(self, source: ModelSource, detail: Detail) -> Model:
        self.count += 1
        return describe_onnx(source, detail)


class Shown:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda found, *_, **options: self.events.update({name: found})


def inspected(tmp_path: Path, **options: Any) -> tuple[int, dict[str, Any]]:
    path = tmp_path / "m.onnx"
    path.write_bytes(classifier_files.classifier().SerializeToString())
    reader, shown = Counting(), Shown()
    with bind(describe_file, reader, key="onnx"), bind(ModelReports, shown):  # type: ignore[arg-type]
        inspect_model(str(path), **options)
    return reader.count, shown.events


@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ({}, 1),
        ({"list_unbounded_dds": True}, 1),
        ({"stats": True, "list_unbounded_dds": True, "infer_shapes": True}, 1),
        # Statistics need shapes that the model does not state, and that are not shown.
        ({"stats": True, "list_unbounded_dds": True}, 2),
    ],
)
def test_a_model_is_read_once(options: dict[str, Any], reads: int, tmp_path: Path) -> None:
    count, events = inspected(tmp_path, **options)
    assert count == reads
    assert ("statistics" in events) == ("stats" in options)
    assert ("show_unbounded_tensors" in events) == ("list_unbounded_dds" in options)


def test_what_was_read_for_something_else_is_not_shown(tmp_path: Path) -> None:
    options = {"stats": True, "list_unbounded_dds": True, "infer_shapes": True}
    _, plain = inspected(tmp_path)
    _, more = inspected(tmp_path, **options)
    _, layers = inspected(tmp_path, show=["layers"], **options)
    assert more["model"].graph.nodes == plain["model"].graph.nodes == ()
    assert more["model"].graph.tensors == {}
    assert layers["model"].graph.nodes
    assert layers["statistics"] == more["statistics"]


def test_quantized_tensors_are_listed_with_their_losses(tmp_path: Path) -> None:
    quantized, exact, data = (str(tmp_path / name) for name in ("q.onnx", "f.onnx", "x.json"))
    onnx.save(build_quantized(2), quantized)
    onnx.save(plain(), exact)
    draw = np.random.default_rng(0)
    feeds = [{"x": draw.standard_normal((8, SIZE)).astype(np.float32)}]
    resolve(ResultStore).save(feeds, data)
    shown = Shown()
    with bind(ModelReports, shown):  # type: ignore[arg-type]
        inspect_model(quantized, reference=exact, inputs=[data])
        found = {one.name: one for one in shown.events["show_quantization"]}
        with pytest.raises(UsageError, match="no quantized tensors to measure"):
            inspect_model(exact, inputs=[data])
    assert {one.kind for one in found.values()} >= {"activation", "weight"}
    assert all(one.loss is not None for one in found.values())
    assert found["r1"].loss > 5 * found["r1"].least > 0


def test_weights_of_a_large_model_are_measured_one_node_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantized, exact = (str(tmp_path / name) for name in ("q.onnx", "f.onnx"))
    onnx.save(build_quantized(), quantized)
    onnx.save(plain(), exact)
    results = []
    for most in (1 << 27, 0):
        monkeypatch.setattr(quantized_tensors, "_MANY_ELEMENTS", most)
        shown = Shown()
        with bind(ModelReports, shown):  # type: ignore[arg-type]
            inspect_model(quantized, reference=exact)
        results.append({(one.kind, one.name): one for one in shown.events["show_quantization"]})
    whole, parts = results
    assert whole.keys() == parts.keys()
    assert all(parts[key].loss == whole[key].loss for key in whole if key[0] == "weight")


def test_a_check_of_compatibility_names_the_nodes_that_a_backend_refuses(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (double[2] x) => (double[2] y) { a = Neg (x) y = Sinh (a) }
    """)
    model.graph.node[1].name = "sinh"
    onnx.save(model, tmp_path / "m.onnx")
    [node] = _nodes_refused_at_run_time(str(tmp_path / "m.onnx"), "onnxrt")
    assert (node.name, node.op) == ("sinh", "Sinh")
