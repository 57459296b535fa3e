"""What is known of the data types in which engines compute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.describe import build_record
from polygraphy.adapters.tensorrt.describe.build_record import (
    BuildRecord,
    ModelFile,
    remember_record,
)
from polygraphy.adapters.tensorrt.describe.describe_engine import (
    engine_facts,
    least_precise_layer_dtype,
    network_dtypes,
)
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.backend.trt import CreateConfig, EngineBytesFromNetwork, NetworkFromOnnxPath
from polygraphy.backend.trt import Profile as TrtProfile
from polygraphy.comparator import Comparator, SimpleCompareFunc
from polygraphy.domain.errors import UsageError
from tests.support import models
from tests.support.engines import identity
from tests.support.fake_tensorrt import FakeTensorRT

BATCHES = TrtProfile().add("x", (1, 8), (2, 8), (4, 8))


def _built_dtypes(path: str, **settings: Any) -> dict[str, str]:
    plan = EngineBytesFromNetwork(
        NetworkFromOnnxPath(path), CreateConfig(profiles=[BATCHES], **settings)
    )()
    record = build_record.record_of(plan)
    assert record is not None
    return dict(record.compute_dtypes)


@pytest.mark.usefixtures("rtx")
@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({}, "float32"),
        ({"tf32": True}, "tf32"),
        ({"fp16": True}, "float16"),
        ({"bf16": True}, "bfloat16"),
    ],
)
def test_a_build_knows_in_what_it_computes(
    settings: dict[str, bool], dtype: str, mlp_path: str
) -> None:
    assert _built_dtypes(mlp_path, **settings) == {"y": dtype}


@pytest.mark.usefixtures("rtx")
def test_the_model_s_own_types_count(tmp_path: Path) -> None:
    models.save(models.identity_fp16(), tmp_path / "half.onnx")
    plan = EngineBytesFromNetwork(NetworkFromOnnxPath(str(tmp_path / "half.onnx")))()
    record = build_record.record_of(plan)
    assert record is not None and set(record.compute_dtypes.values()) == {"float16"}


# Networks by hand.


def _tensor(name: str, dtype: Any) -> Any:
    return SimpleNamespace(name=name, dtype=dtype)


def _network(layers: Sequence[tuple[str, Sequence[Any], Sequence[Any]]], outputs: Any) -> Any:
    made = [
        SimpleNamespace(
            type=SimpleNamespace(name=kind),
            num_inputs=len(inputs),
            num_outputs=len(results),
            get_input=inputs.__getitem__,
            get_output=results.__getitem__,
        )
        for kind, inputs, results in layers
    ]
    return SimpleNamespace(
        num_layers=len(made),
        get_layer=made.__getitem__,
        num_outputs=len(outputs),
        get_output=outputs.__getitem__,
    )


def test_each_output_has_the_coarsest_type_on_its_way(rtx: Any) -> None:
    x, weights = _tensor("x", rtx.float16), _tensor("weights", rtx.float16)
    half, wide = _tensor("half", rtx.float16), _tensor("wide", rtx.float32)
    alone, index = _tensor("alone", rtx.float32), _tensor("index", rtx.int32)
    eight, back = _tensor("eight", rtx.int8), _tensor("back", rtx.float32)
    network = _network(
        [
            ("CONSTANT", [], [weights]),
            ("ELEMENTWISE", [x, weights], [half]),
            ("CAST", [half, None], [wide, None]),
            ("ELEMENTWISE", [_tensor("y", rtx.float32), weights], [alone]),
            ("SHAPE", [alone], [index]),
            ("QUANTIZE", [alone], [eight]),
            ("DEQUANTIZE", [eight], [back]),
        ],
        [wide, alone, back, _tensor("unknown", rtx.int32)],
    )
    assert network_dtypes(network, ()) == {"wide": "float16", "alone": "float32", "back": "int8"}
    # What the builder may choose from, it may use anywhere.
    assert network_dtypes(network, ("BF16", "FP16", "REFIT")) == {
        "wide": "bfloat16",
        "alone": "bfloat16",
        "back": "int8",  # as coarse as bfloat16
        "unknown": "bfloat16",
    }


# Engines without a record.


def _engine(monkeypatch: pytest.MonkeyPatch, layers: Any) -> Any:
    text = json.dumps({"Layers": layers})
    inspector = SimpleNamespace(get_engine_information=lambda form: text)
    return SimpleNamespace(create_engine_inspector=lambda: inspector)


def _layer(*formats: str, **facts: Any) -> dict[str, Any]:
    outputs = [{"Name": f"t{index}", "Format/Datatype": form} for index, form in enumerate(formats)]
    return {"Name": "layer", "LayerType": "gemm", "Inputs": [], "Outputs": outputs, **facts}


FP32, FP16 = "Row major linear FP32", "Channel major FP16 format"


@pytest.mark.usefixtures("rtx")
@pytest.mark.parametrize(
    ("layers", "dtype"),
    [
        ([_layer(FP32), _layer(FP16), _layer(FP32)], "float16"),
        ([_layer(FP32), _layer(FP32, TacticName="sm80_gemm_tf32f32_tn")], "tf32"),
        ([_layer(FP32)], "float32"),
        ([_layer("Thirty-two wide channel vectorized row major Int8 format")], "int8"),
        (["layer 1", "layer 2"], ""),  # Names are all that is kept.
        ([_layer(FP32, LayerType="Myelin")], ""),  # What is inside does not show.
        ([_layer(FP32, Name="{ForeignNode[a...b]}")], ""),
        ([], ""),
    ],
)
def test_an_engine_is_asked_through_its_inspector(
    layers: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _engine(monkeypatch, layers)
    assert least_precise_layer_dtype(engine) == dtype
    assert dict(engine_facts(engine).compute_dtypes) == ({"": dtype} if dtype else {})


@pytest.mark.usefixtures("rtx")
def test_an_inspector_that_fails_tells_nothing() -> None:
    assert least_precise_layer_dtype(SimpleNamespace()) == ""


# Runners.


def test_a_runner_reports_what_its_engine_was_built_with(trt: FakeTensorRT) -> None:
    engine = identity(trt)
    remember_record(engine, BuildRecord("TensorRT", "10.0", compute_dtypes={"Y": "float16"}))
    runner = TrtRunner(engine)
    with pytest.raises(UsageError, match="must be active"):
        runner.get_model_facts()
    with runner:
        assert runner.get_model_facts().compute_dtypes == {"Y": "float16"}


@pytest.mark.parametrize(
    ("dtypes", "is_lowered"),
    [({"Y": "tf32"}, True), ({"Y": "tf32", "Z": "float16"}, False), ({"Y": "float32"}, False)],
)
def test_tf32_of_an_engine_is_named_with_what_leaves_it_out(
    trt: FakeTensorRT, dtypes: dict[str, str], is_lowered: bool
) -> None:
    engine = identity(trt)
    remember_record(engine, BuildRecord("TensorRT", "10.0", compute_dtypes=dtypes))
    lowered = engine_facts(engine).lowered
    assert (lowered is not None) is is_lowered
    if lowered is not None:
        assert "trt computes" in lowered.describe() and "--tf32" in lowered.option


def test_automatic_tolerances_follow_from_it(trt: FakeTensorRT) -> None:
    feed = {"X": np.ones((4, 2), np.float32)}

    def passes(record: BuildRecord | None) -> bool:
        exact, off = identity(trt), identity(trt)
        off.function = lambda feed: {"Y": feed["X"] * np.float32(1.001)}
        if record is not None:
            remember_record(off, record)
        results = Comparator.run([TrtRunner(off), TrtRunner(exact)], data_loader=[feed])
        return bool(
            Comparator.compare_accuracy(
                results, compare_func=SimpleCompareFunc(rtol="auto", atol="auto")
            )
        )

    assert not passes(None)
    assert passes(BuildRecord("TensorRT", "10.0", compute_dtypes={"Y": "float16"}))


def test_the_model_s_limits_of_values_are_known_too(
    trt: FakeTensorRT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnx import TensorProto, helper

    table = helper.make_tensor("table", TensorProto.FLOAT, [5, 2], [0.0] * 10)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
        [table],
    )
    path = tmp_path / "lookup.onnx"
    models.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    engine = identity(trt)
    model = ModelFile.of(str(path))
    record = BuildRecord("TensorRT", "10.0", model=model, compute_dtypes={"y": "float32"})
    remember_record(engine, record)
    hint = engine_facts(engine).input_hints["ids"]
    assert hint.high == 4
    path.write_bytes(b"another model")
    assert engine_facts(engine).input_hints == {}


def test_a_loaded_plan_remembers_its_record(
    tmp_path: Path, trt: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygraphy.adapters.tensorrt.plan import engine as engines

    made = identity(trt)
    monkeypatch.setattr(engines, "deserialize_plan", lambda *args: made)
    path = tmp_path / "a.engine"
    path.write_bytes(b"plan")
    record = BuildRecord("TensorRT", "10.16.1.11", compute_dtypes={"Y": "bfloat16"})
    build_record.save_record(path, record, 4)
    engine = engines.EngineFromPath(str(path))()
    assert engine_facts(engine).compute_dtypes == {"Y": "bfloat16"}
