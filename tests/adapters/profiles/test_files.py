"""Profiles on disk: ours, and those of ONNX Runtime, trtexec and OpenVINO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from polygraphy.adapters.files.small.profiles import load_profiles, save_profiles
from polygraphy.adapters.onnxruntime.trace import profile_runs, read_trace, split_runs
from polygraphy.adapters.openvino.profiling import times_of_runs
from polygraphy.adapters.tensorrt.describe.layer_times import origin_names
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.profiling.execution import (
    DEVICE,
    HOST,
    LAUNCH,
    ExecutedNode,
    ExecutionProfile,
    ModelNodes,
    profile_node,
)
from polygraphy.domain.profiling.explanation import compare_profiles
from polygraphy.domain.profiling.recording import NodeEvent

PROFILE = ExecutionProfile(
    "a",
    [ExecutedNode("If", "If", [5.0], ["x"], ["y"], inner=[ExecutedNode("in", "Mul", [4.0])])],
    shapes={"x": [1, 2]},
    run_times=[7.0],
    plain_times=[6.0],
    model=ModelNodes([profile_node("If", "If", ["x"], ["y"])], ["x"], ["y"], "m.onnx"),
)


def event(name: str, op: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
    arguments = {"op_name": op, "provider": "CPUExecutionProvider", **more}
    return {"cat": "Node", "ph": "X", "name": f"{name}_kernel_time", "ts": start, "dur": duration,
            "args": arguments}  # fmt: skip


def end(start: float, duration: float) -> dict[str, Any]:
    return {
        "cat": "Session",
        "ph": "X",
        "name": "model_run",
        "ts": start,
        "dur": duration,
        "args": {},
    }


def kernel(name: str, parent: str, duration: float) -> dict[str, Any]:
    return {"cat": "Kernel", "ph": "X", "name": name, "ts": 0, "dur": duration,
            "args": {"parent_name": f"{parent}_kernel_time"}}  # fmt: skip


def write_trace(path: Path, events: list[dict[str, Any]]) -> None:
    path.write_text("[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n", encoding="utf-8")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "p.json")
    save_profiles([PROFILE, PROFILE], path)
    plain = json.dumps(attrs.asdict(PROFILE))
    assert [json.dumps(attrs.asdict(each)) for each in load_profiles(path)] == [plain, plain]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": "polygraphy execution profile", "version": 1, "models": [', "damaged"),
        ('{"format": "polygraphy execution profile", "version": 7}', "version 7"),
        ('{"format": "polygraphy execution profile", "version": 1, "models": [], "profiles": [3]}', "damaged"),
        ('{"format": "polygraphy execution profile", "version": 1, "models": [], "profiles": []}', "damaged"),
        ("{}", "not an execution profile"),
        ('[{"cat": "Session", "ph": "X", "name": "x"}]', "no complete run"),
        ('[{"count": 3}]', "contains no layer times"),
        ("layerName;execStatus\n", "not an execution profile"),
        ("layerName;execStatus;layerType\n", "no executed node"),
        ('{"report_type": "average", "real_time": 1', "damaged"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolygraphyException, match=said):
        load_profiles(str(path))


def test_what_is_read_as_a_whole_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polygraphy.adapters.files.small.profiles._MOST_BYTES", 1 << 20)
    monkeypatch.setattr("polygraphy.adapters.tensorrt.describe.layer_times._MOST_BYTES", 1 << 20)
    monkeypatch.setattr("polygraphy.adapters.openvino.report._MOST_ROWS", 3)
    own = '{"format": "polygraphy execution profile", "version": 1}'
    for start in (own, '[{"count": 3}]'):
        path = tmp_path / "large.json"
        path.write_text(start + " " * (1 << 21), encoding="utf-8")
        with pytest.raises(PolygraphyException, match=r"large\.json has 2 MiB; at most 1 MiB"):
            load_profiles(str(path))
    report = tmp_path / "report.csv"
    row = "n{};Status.EXECUTED;Relu;jit;0.010;0.010\n"
    report.write_text("layerName;execStatus;layerType\n" + "".join(map(row.format, range(9))))
    (profile,) = load_profiles(str(report))
    assert len(profile.nodes) == 3 and "Only the first 3 rows" in " ".join(profile.notes)


def test_bodies_are_inside_their_node_and_counted_once() -> None:
    events = [
        event("a", "Relu", 0, 5),
        event("in", "Mul", 11, 4),
        event("in", "Mul", 16, 4),
        event("loop", "Loop", 10, 20),
        end(0, 40),
    ]
    (run,) = split_runs(events)
    assert [(one.name, one.microseconds, len(one.inner)) for one in run.events] == [
        ("a", 5, 0),
        ("loop", 20, 2),
    ]


def test_the_time_of_a_node_on_a_device_is_that_of_its_kernels() -> None:
    cuda = {"provider": "CUDAExecutionProvider"}
    first, second = split_runs(
        [
            event("conv", "Conv", 0, 3, **cuda),
            event("fc", "MatMul", 4, 3, **cuda),
            kernel("gemm", "fc", 50),
            kernel("fprop", "conv", 70),
            kernel("bias", "conv", 5),
            end(0, 200),
            event("conv", "Conv", 0, 3, **cuda),
            end(0, 9),
        ]
    )
    assert [(one.microseconds, one.kernel, one.clock) for one in first.events] == [
        (75, "fprop", DEVICE),
        (50, "gemm", DEVICE),
    ]
    assert second.events[0].clock == LAUNCH
    profile = profile_runs([second], None, waits=True)
    assert profile.nodes[0].clock == HOST and "waited" in profile.notes[0]


def test_the_complete_runs_of_a_truncated_trace_are_read_by_shapes(tmp_path: Path) -> None:
    runs = []
    for size, time in ((1, 99), (1, 10), (1, 10), (9, 999), (9, 90)):  # First runs initialize.
        shapes = [{"float": [size, 3]}]
        runs += [event("a", "Relu", 0, time, input_type_shape=shapes), end(0, time + 2)]
    path = tmp_path / "t.json"
    write_trace(path, runs)
    whole = path.read_text(encoding="utf-8")
    profiles = load_profiles(str(path))
    assert [each.node_time for each in profiles] == [10, 90]
    assert [each.shapes for each in profiles] == [{"operand 1 of a": [size, 3]} for size in (1, 9)]
    # Without the executed graph, names are all that there is.
    rows = compare_profiles(
        profiles[:1], ModelNodes([profile_node("a", "Relu", ["x"], ["y"])])
    ).rows
    assert [(row.label, row.time) for row in rows] == [("a", 10), ("(outside nodes)", 2)]
    path.write_text(whole[: len(whole) - 60], encoding="utf-8")
    trace = read_trace(path)
    assert len(trace.runs) == 4
    assert "truncated" in trace.notes[0]


def test_a_trace_in_one_line_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polygraphy.adapters.onnxruntime.trace._CHUNK", 50)
    monkeypatch.setattr("polygraphy.adapters.onnxruntime.trace._LONGEST_EVENT", 400)
    runs = [one for at in range(4) for one in (event("a", "Relu", 0, 10 + at), end(0, 12))]
    path = tmp_path / "t.json"

    def read(text: str) -> tuple[int, str]:
        path.write_text(text, encoding="utf-8")
        trace = read_trace(path)
        return len(trace.runs), " ".join(trace.notes)

    whole = json.dumps(runs)
    assert read(whole) == read(json.dumps(runs, indent=1)) == (4, "")
    count, note = read(whole[:-9])
    assert count == 3 and "is truncated" in note
    lines = whole.replace("}, {", "},\n{").replace('"name"', "name", 1)
    count, note = read(lines)
    assert count == 3 and "is damaged" in note


LAYERS = [
    {"Name": "Reformatting CopyNode for Input Tensor 0 to c", "LayerType": "Reformat",
     "Inputs": [{"Name": "x"}], "Outputs": [{"Name": "Reformatted Input Tensor 0 to c"}]},
    {"Name": "c + PWN(r)", "LayerType": "CaskConvolution", "TacticName": "fprop",
     "Inputs": [{"Name": "Reformatted Input Tensor 0 to c"}], "Outputs": [{"Name": "b"}],
     "Metadata": "[ONNX Layer: c]\x1e[ONNX Layer: r]"},
    {"Name": "{ForeignNode[d...e]}", "LayerType": "Myelin", "Inputs": [{"Name": "b"}],
     "Outputs": [{"Name": "y before"}]},
    {"Name": "reshape_after_y", "LayerType": "Shuffle", "Inputs": [{"Name": "y before"}],
     "Outputs": [{"Name": "y"}]},
]  # fmt: skip
MODEL = ModelNodes(
    [
        profile_node("c", "Conv", ["x", "W"], ["a"]),
        profile_node("r", "Relu", ["a"], ["b"]),
        profile_node("d", "MatMul", ["b", "V"], ["m"]),
        profile_node("e", "Add", ["m", "B"], ["y"]),
    ],
    ["x"],
    ["y"],
)


@pytest.mark.parametrize("has_layers", [True, False])
def test_a_profile_of_trtexec_is_joined_with_or_without_its_layers(
    tmp_path: Path, has_layers: bool
) -> None:
    profile, layers = tmp_path / "p.json", tmp_path / "l.json"
    rows: list[dict[str, Any]] = [{"count": 10}]
    rows += [
        {"name": layer["Name"], "timeMs": time * 10, "averageMs": time, "percentage": 1.0}
        for layer, time in zip(LAYERS, (0.001, 0.02, 0.3, 0.002))
    ]
    profile.write_text(json.dumps(rows), encoding="utf-8")
    layers.write_text(json.dumps({"Layers": LAYERS, "Bindings": ["x", "y"]}), encoding="utf-8")
    found = load_profiles(str(profile), str(layers) if has_layers else None)
    table = compare_profiles(found, MODEL)
    assert [(row.label, round(row.time, 3)) for row in table.rows] == [
        ("c, r", 20), ("d, e", 300), ("(inserted)", 3),
    ]  # fmt: skip


KERNELS = [
    ("Reformatting CopyNode for Input Tensor 0 to /conv/Conv + /relu/Relu", "Reformat", "x",
     "Reformatted Input Tensor 0 to /conv/Conv + /relu/Relu", "[ONNX Layer: /conv/Conv]", 5),
    ("/conv/Conv + /relu/Relu", "CaskConvolution",
     "Reformatted Input Tensor 0 to /conv/Conv + /relu/Relu", "r",
     "[ONNX Layer: /conv/Conv]\x1e[ONNX Layer: /relu/Relu]", 20),
    ("__myl_MeanSubMul_myl0_0", "kgen", "r", "__mye101", "[ONNX Layer: /ln/Norm]", 7),
    ("__myl_DivMulAdd_myl0_1", "kgen", "__mye101", "__mye102", "[ONNX Layer: /ln/Norm]", 3),
    ("__myl_Fc_myl0_2", "gemm", "__mye102", "__mye103", "[ONNX Layer: /fc/MatMul]", 40),
    ("__myl_AddMaxSub_myl0_3", "kgen", "__mye103", "y",
     "[ONNX Layer: /fc/Add]\x1f[ONNX Layer: /sm[0]/Softmax]", 6),
]  # fmt: skip
"""Layers as TensorRT 10 describes them in detail, with microseconds."""


def test_the_kernels_of_tensorrt_10_are_joined_by_their_metadata(tmp_path: Path) -> None:
    names = ["/conv/Conv", "/relu/Relu", "/ln/Norm", "/fc/MatMul", "/fc/Add", "/sm[0]/Softmax"]
    tensors = ["x", "c", "r", "n", "m", "a", "y"]
    ops = [name.rpartition("/")[2] for name in names]
    nodes = [profile_node(*each) for each in zip(names, ops, zip(tensors), zip(tensors[1:]))]
    profile, layers = tmp_path / "p.json", tmp_path / "l.json"
    rows: list[Any] = [{"count": 2}]
    rows += [{"name": name, "timeMs": time / 500} for name, *_, time in KERNELS]
    described = [
        {"Name": name, "LayerType": kind, "Inputs": [{"Name": read}], "Outputs": [{"Name": made}],
         "Metadata": metadata}
        for name, kind, read, made, metadata, _ in KERNELS
    ]  # fmt: skip

    def labels(found: list[Any]) -> dict[str, float]:
        profile.write_text(json.dumps(rows), encoding="utf-8")
        layers.write_text(json.dumps({"Layers": found}), encoding="utf-8")
        loaded = load_profiles(str(profile), str(layers))
        table = compare_profiles(loaded, ModelNodes(nodes, ["x"], ["y"]))
        return {row.label: round(row.time, 3) for row in table.rows}

    assert labels(described) == {
        "/conv/Conv, /relu/Relu": 20,
        "/ln/Norm": 10,
        "/fc/MatMul": 40,
        "/fc/Add, /sm[0]/Softmax": 6,
        "(inserted)": 5,
    }
    # With names alone, kernels are not taken for nodes that were inserted.
    assert labels([each["Name"] for each in described]) == {
        "/conv/Conv, /relu/Relu": 20,
        "(inserted)": 5,
        "(unknown names)": 56,
    }
    rows.pop(0)
    profile.write_text(json.dumps(rows), encoding="utf-8")
    assert "sums of all runs" in load_profiles(str(profile))[0].notes[0]


def test_a_truncated_file_of_trtexec_is_one_line(tmp_path: Path) -> None:
    rows = json.dumps([{"count": 10}, {"name": "c", "timeMs": 1.0, "averageMs": 0.1}])
    information = json.dumps({"Layers": LAYERS})
    profile, layers = tmp_path / "p.json", tmp_path / "l.json"
    for cut, text in enumerate((rows[:-1], rows[:30], rows)):
        profile.write_text(text, encoding="utf-8")
        layers.write_text(information[:-20], encoding="utf-8")
        with pytest.raises(PolygraphyException, match="damaged or truncated") as caught:
            load_profiles(str(profile), str(layers) if cut == 2 else None)
        name = "l.json" if cut == 2 else "p.json"
        assert name in str(caught.value) and "trtexec" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("PWN(PWN(a), b)", ["a", "b"]),
        ("a + b || c", ["a", "b", "c"]),
        ("/x(1)/Conv + /y/Add", ["/x(1)/Conv", "/y/Add"]),
        ("{ForeignNode[a...b]}", ["a", "b"]),
        ("{ForeignNode[/l.0/M + (Unnamed Layer* 5) [Shuffle].../l.1/T + F]} [profile 1]",
         ["/l.0/M", "(Unnamed Layer* 5) [Shuffle]", "/l.1/T", "F"]),
        ("node_of_gpu_0/conv1_1 + (Unnamed Layer* 2) [Shuffle]",
         ["node_of_gpu_0/conv1_1", "gpu_0/conv1_1", "(Unnamed Layer* 2) [Shuffle]"]),
    ],
)  # fmt: skip
def test_the_name_of_a_layer_names_its_nodes(name: str, nodes: list[str]) -> None:
    assert list(origin_names(name)) == nodes


ROWS = [
    ("x", "NOT_RUN", "Parameter", "unknown", 0, 0),
    ("c/WithoutBiases", "EXECUTED", "Convolution", "brgconv", 50, 70),
    ("r", "NOT_RUN", "Relu", "undef", 0, 0),
    ("e", "EXECUTED", "FullyConnected", "brgemm", 10, 12),
]
"""The nodes of `MODEL` in OpenVINO, with microseconds of two inference requests."""


def rows_of_report(at: int, line: str, **words: str) -> str:
    return "".join(
        line.format(name=name, status=status, op=op, kernel=kernel, time=times[at] / 1e3, **words)
        for name, status, op, kernel, *times in ROWS
    )


HEADER = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
CSV = "{name};Status.{status};{op};{kernel};{time:.3f};{time:.3f}\n"
LOG = (
    "{name:20} Status.{status:13} layerType: {op:20} execType: {kernel:20} realTime (ms): {time:<10}"
    "cpuTime (ms): {time:<10}\n"
)
NODE = '{{"name": "{name}", "node_type": "{op}", "status": "Status.{status}", "real_time": "{time}", "exec_type": "{kernel}"}},'  # fmt: skip


def nodes_of_report(at: int) -> str:
    return '{"nodes": [' + rows_of_report(at, NODE).rstrip(",") + "]}"


REPORTS = {
    "average csv": ([50, 10], HEADER + rows_of_report(0, CSV) + "Total;;;;0.060;0.060\n\n"),
    "detailed csv": (
        [60, 11],
        "".join(HEADER + rows_of_report(at, CSV) + "Total;;;;1;1\n\n" for at in (0, 1)),
    ),
    "sorted csv": (
        [50, 10],
        'layerName,execStatus,layerType,execType,realTime (ms),cpuTime (ms),"proportion (%)\n"\n'
        + rows_of_report(0, CSV.replace(";", ",").rstrip() + ",9.99%\n"),
    ),
    "log": (
        [60, 11],
        "[Step 1/11] Parsing and validating input arguments\n[ INFO ] CPU\n"
        + "".join(rows_of_report(at, LOG) + "Total time:    0.06 milliseconds\n" for at in (0, 1)),
    ),
    "average json": (
        [50, 10],
        '{"report_type": "average", "avg_performance": ' + nodes_of_report(0) + "}",
    ),
    "detailed json": (
        [60, 11],
        '{"report_type": "detailed", "detailed_performance": ['
        + ", ".join(map(nodes_of_report, (0, 1)))
        + "]}",
    ),
}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_of_openvino_puts_fused_nodes_to_the_one_before(kind: str, tmp_path: Path) -> None:
    times, text = REPORTS[kind]
    path = tmp_path / "report"
    path.write_text(text, encoding="utf-8")
    table = compare_profiles(load_profiles(str(path)), MODEL)
    # Sorted rows do not tell what was fused: the Relu is computed before the next node.
    labels = ["c", "r ... e (3)"] if kind == "sorted csv" else ["c, r", "d, e"]
    assert [row.label for row in table.rows] == labels
    assert [row.time for row in table.rows] == pytest.approx(times)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [(1, [11, 11, 21, 21]), (100, [1000, 1200, 2000, 2200])],
)
def test_averages_of_all_runs_become_times_of_some(scale: int, expected: list[float]) -> None:
    times = [900, 10, 12, 300, 20, 22]  # Each set of shapes has a slow first run.
    runs = [
        [NodeEvent("c", "Conv", float(scale * sum(times[: at + 1]) // (at + 1)))]
        for at in range(len(times))
    ]
    found = times_of_runs(runs, [1, 2, 4, 5])
    assert [event.microseconds for [event] in found] == pytest.approx(expected, abs=6)
