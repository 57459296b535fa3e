"""What the onnx package raises for models that it does not expect is an error of this
package, in bounded time, whatever was done to the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.parsing import translate_onnx_errors
from polygraphy.adapters.onnxruntime.trial import OnnxrtTrial
from polygraphy.application.models.linting import lint
from polygraphy.backend.onnx import (
    convert_opset,
    convert_to_fp16,
    fold_constants,
    infer_shapes,
    save_onnx,
)
from polygraphy.domain.errors import BackendError, ModelError, PolygraphyException
from polygraphy.domain.model import ModelSource
from polygraphy.inspect import compare_models, inspect_model, inspect_outputs
from polygraphy.surgeon import strip_weights
from tests.adapters.onnx.rich_model import rich_model
from tests.adapters.onnx.running import copied
from tests.support import models
from tests.support.examples import scaled

EDITS: tuple[Callable[[onnx.ModelProto], Any], ...] = (
    infer_shapes,
    fold_constants,
    convert_to_fp16,
    strip_weights,
    lambda model: convert_opset(model, 18),
)
_SLOWEST = 60.0


def messages_of(root: Any) -> list[Any]:
    """Return a message and all those inside it."""
    found = [root]
    for field, value in root.ListFields():
        if field.type == field.TYPE_MESSAGE:
            repeated = value if hasattr(value, "extend") else [value]
            found += [inner for each in repeated for inner in messages_of(each)]
    return found


@contextmanager
def translated() -> Iterator[None]:
    """Let errors of this package pass, which say something."""
    try:
        yield
    except PolygraphyException as error:
        assert str(error).strip()


@st.composite
def mutated(draw: Any) -> onnx.ModelProto:
    """Return a model with one to four changes of its structure: dimensions, types, names,
    attributes, operators, and parts that are gone or there twice.
    """
    model = copied(draw(st.sampled_from([rich_model, models.conv_net]))())
    for _ in range(draw(st.integers(1, 4))):
        message = draw(st.sampled_from(messages_of(model)))
        fields = [field for field, _ in message.ListFields()]
        if not fields:
            continue
        field = draw(st.sampled_from(fields))
        value = getattr(message, field.name)
        if hasattr(value, "extend"):
            if draw(st.booleans()):
                del value[draw(st.integers(0, len(value) - 1))]
            elif field.type == field.TYPE_MESSAGE:
                value.add().CopyFrom(value[0])
            elif field.name == "dims":
                value[0] = draw(st.sampled_from([0, -1, 2**33, 2**62]))
            else:
                value.append(value[draw(st.integers(0, len(value) - 1))])
        elif field.type == field.TYPE_MESSAGE:
            message.ClearField(field.name)
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            text = draw(st.sampled_from(["", "x", "Add", "Loop", "\\x1b", "a" * 300]))
            setattr(message, field.name, text if field.type == field.TYPE_STRING else text.encode())
        elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            setattr(message, field.name, draw(st.sampled_from([0.0, -1.0, float("nan")])))
        elif field.enum_type is None:
            setattr(message, field.name, draw(st.sampled_from([0, 1, 7, 2**31 - 1])))
    return model


@given(mutated())
def test_mutated_models_fail_with_errors_of_ours(model: onnx.ModelProto) -> None:
    started = time.monotonic()
    for edit in EDITS:
        with translated():
            edit(copied(model))
    assert time.monotonic() - started < _SLOWEST


@settings(max_examples=scaled(40))  # Each runs the model.
@given(mutated())
def test_mutated_files_fail_with_errors_of_ours(
    tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto
) -> None:
    path = tmp_path_factory.mktemp("mutated") / "m.onnx"
    path.write_bytes(model.SerializeToString())
    started = time.monotonic()
    for look in (
        lambda: inspect_model(str(path), show=["layers", "attrs", "weights"], stats=True),
        lambda: inspect_outputs(str(path)),
        lambda: lint(ModelSource(str(path)), OnnxrtTrial()),
    ):
        with translated():
            look()
    assert time.monotonic() - started < _SLOWEST


def small(body: str, inputs: str = "float[2] x") -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> m ({inputs}) => (float[2] y) {{ {body} }}'
    return parser.parse_model(text)


def branch(name: str) -> onnx.GraphProto:
    value = numpy_helper.from_array(np.float32([1, 2]))
    node = helper.make_node("Constant", [], [name], value=value)
    return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=name)])


def test_each_model_that_raised_an_error_of_the_onnx_package_raises_one_of_ours(
    tmp_path: Path,
) -> None:
    wrong = [
        small("y = Add(x, z)", "float[2] x, float[3] z"),
        small("y = Add(x, z)", "float[2] x, int64[2] z"),
        small("y = Add(x)"),
        small("y = Concat(x, x)"),
    ]
    for model in wrong:
        for edit in (lambda m: convert_opset(m, 18), lambda m: infer_shapes(m, error_ok=False)):
            with translated():
                edit(copied(model))
    large = small("y = Add(x, w)")
    large.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[2**33, 2**33]))
    with pytest.raises(ModelError, match=r"Weight 'w' of shape .* values, but has 0"):
        save_onnx(large, str(tmp_path / "m.onnx"), "w.bin", size_threshold=0)
    part = TensorProto(name="w", data_type=1, dims=[2], segment=TensorProto.Segment(end=2))
    with pytest.raises(ModelError, match="Weight 'w' cannot be read"):
        elements(part)
    choice = small("y = Identity(x)", "float[2] x, bool c")
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))
    choice.graph.node[0].CopyFrom(node)
    fold_constants(choice)
    report_path = tmp_path / "large.onnx"
    onnx.save(small("y = Neg(x)", "float[8589934592,8589934592] x"), report_path)
    report = lint(ModelSource(str(report_path)), OnnxrtTrial())
    assert any(
        "Nothing was run: data for its inputs would need" in entry.message
        for entry in report.entries
    )


def test_only_errors_of_the_onnx_package_are_translated() -> None:
    with (
        pytest.raises(ModelError, match="It failed: shapes differ"),
        translate_onnx_errors("It failed"),
    ):
        raise onnx.shape_inference.InferenceError("shapes\n differ")
    with pytest.raises(AssertionError), translate_onnx_errors("It failed"):
        raise AssertionError
    with pytest.raises(BackendError, match="as it is"), translate_onnx_errors("It failed"):
        raise BackendError("as it is")


def test_models_that_are_quantized_otherwise_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for scale in ("s", "t"):
        model = small("y = Neg(x)")
        annotation = model.graph.quantization_annotation.add(tensor_name="x")
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=scale)
        paths.append(str(tmp_path / f"{scale}.onnx"))
        onnx.save(model, paths[-1])
    assert compare_models(paths[0], paths[0])
    assert not compare_models(*paths)
    said = capsys.readouterr().out
    assert "SCALE_TENSOR=s" in said and "SCALE_TENSOR=t" in said


def test_models_that_symbolic_inference_does_not_take_are_inferred() -> None:
    text = '<ir_version: 3, opset_import: ["" : 6]> m (float[2] x) => (float[M] y) {'
    model = parser.parse_model(text + " a = Neg(x) y = Own.Op(a) }")
    infer_shapes(model)
    assert [node.op_type for node in fold_constants(model).graph.node] == ["Neg", "Op"]
