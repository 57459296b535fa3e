"""What the parser of TensorRT-RTX says about models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from onnx import helper

from polygraphy.adapters.tensorrt.describe.support import (
    group_by_support,
    problems_of,
    support_problems,
)
from polygraphy.inspect import inspect_capability
from tests.support import models


def with_custom_op_between() -> onnx.ModelProto:
    """Return Relu, Relu, CustomOp, Relu, where the types of all tensors are known."""
    shape = (2, 4)
    model = models.make(
        "between",
        [
            helper.make_node("Relu", ["x"], ["a"], name="r0"),
            helper.make_node("Neg", ["a"], ["b"], name="r1"),
            helper.make_node("CustomOp", ["b"], ["c"], name="odd", domain=models.CUSTOM_DOMAIN),
            helper.make_node("Relu", ["c"], ["y"], name="r3"),
        ],
        [models.value("x", shape)],
        [models.value("y", shape)],
        domains=[models.CUSTOM_DOMAIN],
    )
    model.graph.value_info.extend(models.value(name, shape) for name in "abc")
    return model


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_supported_model_has_no_problems(rtx: Any) -> None:
    assert support_problems(models.conv_net()) == []
    assert group_by_support(models.conv_net()) == [([0, 1, 2, 3, 4], True)]


def test_a_custom_operator_is_a_problem(rtx: Any, capsys: pytest.CaptureFixture[str]) -> None:
    [problem] = support_problems(models.custom_op())
    assert (problem.node, problem.operator, problem.name) == (0, "CustomOp", "custom")
    assert "In node 0 with name: custom and operator: CustomOp" in problem.reason
    assert "Plugin not found" in problem.reason
    assert capsys.readouterr() == ("", "")


def test_inputs_of_unknown_types_are_not_asked_about(
    rtx: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    model = models.identity()
    model.graph.input[0].ClearField("type")
    assert "'x' are unknown" in support_problems(model)[0].reason
    assert group_by_support(model) == []
    assert capfd.readouterr() == ("", "")


def test_a_model_is_divided(rtx: Any, in_folder: Path) -> None:
    model = with_custom_op_between()
    assert inspect_capability(model, with_partitioning=True) is False
    folder = in_folder / "polygraphy_capability_dumps"
    assert sorted(path.name for path in folder.iterdir()) == [
        "results.txt",
        "supported_subgraph-nodes-0-1.onnx",
        "supported_subgraph-nodes-3-3.onnx",
        "unsupported_subgraph-nodes-2-2.onnx",
    ]
    part = onnx.load(str(folder / "supported_subgraph-nodes-0-1.onnx"))
    assert [node.op_type for node in part.graph.node] == ["Relu", "Neg"]
    table = (folder / "results.txt").read_text().splitlines()
    assert table[0] == "===== Summary =====" and "[[2, 3]]" in table[3]
    assert len(table) == 4


def test_without_partitioning_there_is_a_table_only(rtx: Any, in_folder: Path) -> None:
    assert inspect_capability(with_custom_op_between(), "out") is False
    assert [path.name for path in (in_folder / "out").iterdir()] == ["results.txt"]
    assert inspect_capability(models.conv_net(), "none") is True
    assert not (in_folder / "none").exists()


def test_older_parsers_tell_less() -> None:
    error = SimpleNamespace(
        code=lambda: SimpleNamespace(name="UNSUPPORTED_NODE"),
        desc=lambda: "no",
        func=lambda: "f",
        node=lambda: 3,
    )
    parser = SimpleNamespace(num_errors=1, get_error=lambda index: error)
    [problem] = problems_of(parser)
    assert (problem.node, problem.name, problem.stack) == (3, "", ())
    assert problem.reason == "In node 3 (f): UNSUPPORTED_NODE: no"


def test_a_builder_that_is_strongly_typed_quantizes_the_model(rtx: Any, tmp_path: Path) -> None:
    from polygraphy.backend.trt import (
        Calibrator,
        CreateConfig,
        EngineBytesFromNetwork,
        NetworkFromOnnxBytes,
    )
    from polygraphy.comparator import DataLoader

    cache = tmp_path / "calibration.json"
    for loader in (DataLoader(iterations=2), None):
        build = EngineBytesFromNetwork(
            NetworkFromOnnxBytes(models.mlp().SerializeToString()),
            config=CreateConfig(
                int8=True,
                calibrator=Calibrator(loader, cache=str(cache), BaseClass="IInt8MinMaxCalibrator"),
            ),
        )
        assert build().nbytes > 0
        assert '"calibration": "minmax"' in cache.read_text()
