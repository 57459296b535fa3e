"""Which execution provider runs which node, and why not another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnxruntime.placement import (
    _providers_of_log,
    _providers_of_session,
    _reasons,
    place_nodes,
    placements_of,
)
from polygraphy.binding import bind
from polygraphy.domain.checks.capability import NodePlacement, Placements
from polygraphy.inspect import inspect_capability, inspect_model
from polygraphy.ports.models import place_nodes as place_nodes_port

WANTED, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
SPLIT = f"""
[V:onnxruntime:, session_state.cc:1310 VerifyEachNodeIsAssignedToAnEp] Node placements
[V:onnxruntime:, session_state.cc:1313 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [{WANTED}]. Number of nodes: 2
[V:onnxruntime:, session_state.cc:1315 VerifyEachNodeIsAssignedToAnEp]   Relu (polygraphy_node_0)
[V:onnxruntime:, session_state.cc:1315 VerifyEachNodeIsAssignedToAnEp]   MemcpyToHost (Memcpy)
[V:onnxruntime:, session_state.cc:1313 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [{CPU}]. Number of nodes: 1
[V:onnxruntime:, session_state.cc:1315 VerifyEachNodeIsAssignedToAnEp]   Unique (polygraphy_node_1)
"""
COMPILED = f"""
[V:onnxruntime:, VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [OpenVINOExecutionProvider]. Number of nodes: 1
[V:onnxruntime:, VerifyEachNodeIsAssignedToAnEp]   sub_1 (OpenVINOExecutionProvider_OpenVINO-EP-subgraph_1_0)
[V:onnxruntime:, VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [{CPU}]. Number of nodes: 1
[V:onnxruntime:, VerifyEachNodeIsAssignedToAnEp]   Inverse (polygraphy_node_1)
"""
WHOLE = f"[VerifyEachNodeIsAssignedToAnEp]  All nodes placed on [{CPU}]. Number of nodes: 2"


def session(**parts: list[str]) -> Any:
    """A session that reports the names of nodes by provider."""
    made = [
        SimpleNamespace(
            ep_name=provider,
            get_nodes=lambda names=names: [SimpleNamespace(name=n, op_type="Relu") for n in names],
        )
        for provider, names in parts.items()
    ]
    return SimpleNamespace(
        get_provider_graph_assignment_info=lambda: made, get_providers=lambda: [WANTED, CPU]
    )


@pytest.mark.parametrize(
    ("log", "first"), [(SPLIT, WANTED), (COMPILED, "OpenVINOExecutionProvider")]
)
def test_an_older_version_writes_it_to_its_log(log: str, first: str) -> None:
    assert _providers_of_log(log, session(), 2) == {0: first, 1: CPU}
    assert _providers_of_log(WHOLE, session(), 2) == {0: CPU, 1: CPU}
    assert _providers_of_log("", session(), 2) == {}


def test_a_newer_version_reports_it() -> None:
    made = session(**{WANTED: ["polygraphy_node_0", "Memcpy"], CPU: ["polygraphy_node_1"]})
    assert _providers_of_session(made) == {0: WANTED, 1: CPU}
    assert placements_of(made, WANTED).summary() == (
        f"1 of 3 nodes runs on {CPU} instead of {WANTED}: Relu."
    )
    assert placements_of(session(**{WANTED: ["a"]}), WANTED).summary() == ""
    assert placements_of(cast("Any", object()), WANTED).summary() == ""


def test_reasons_are_those_of_the_log() -> None:
    log = (
        "[I:onnxruntime:, cuda_execution_provider.cc:2857 GetCapability] CUDA kernel not found in"
        " registries for Op type: Unique node name: polygraphy_node_1\n"
        "[I:onnxruntime:, fallback_cpu_capability.cc:198 GetCpuPreferredNodes] ORT optimization-"
        " Force fallback to CPU execution for node: polygraphy_node_12 because the CPU execution"
    )
    found = _reasons(log)
    assert list(found) == [1, 12]
    assert "CUDA has no kernel" in found[1]
    assert "expects the CPU to be faster" in found[12]


def chain() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "same"),
        helper.make_node("Neg", ["a"], ["b"], "same"),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def test_every_node_of_a_model_is_placed_whatever_it_is_called() -> None:
    model = chain()
    before = model.SerializeToString()
    placements = place_nodes(model, ["cpu"])
    assert [(node.position, node.name, node.provider) for node in placements.nodes] == [
        (0, "same", CPU), (1, "same", CPU), (2, "", CPU)
    ]  # fmt: skip
    assert model.SerializeToString() == before


def placed(model: Any, providers: Any, libraries: Any = None) -> Placements:
    """Where a GPU without Neg would run the chain."""
    nodes = [(WANTED, ""), (CPU, "no kernel"), (WANTED, "")]
    names = [(node.op_type, node.name) for node in model.graph.node]
    return Placements(
        3,
        WANTED,
        tuple(
            NodePlacement(at, *name, *where) for at, (name, where) in enumerate(zip(names, nodes))
        ),
    )


def test_capability_lists_what_a_provider_does_not_run(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with bind(place_nodes_port, placed):
        options = {"output": str(tmp_path / "out"), "providers": ["cuda"]}
        assert inspect_capability(chain(), with_partitioning=True, **options) is False
    text = (tmp_path / "out" / "results.txt").read_text()
    assert f"Neg      | 1     | It runs on {CPU}: no kernel. | [[1, 2]]" in text
    assert len(list((tmp_path / "out").glob("supported*.onnx"))) == 2


def test_a_model_is_shown_with_its_providers(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(chain(), path)
    with bind(place_nodes_port, placed):
        inspect_model(path, providers=["cuda"])
        inspect_model(path, providers=["cuda"], show=["layers"])
    out = capsys.readouterr().out
    assert f"{WANTED}: 2 of 3 nodes\n" in out
    assert "Node 1: Neg 'same' (no kernel)" in out
    assert out.count("Node 2: Abs\n") == 1  # With layers, all nodes are listed.
