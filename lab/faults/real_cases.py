"""Cases with bugs of released packages: each in a host, in a version that is wrong or right."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import onnx

from .case import Case, Culprit
from .environments import after, between, python
from .hosts import HOSTS, STYLES, Net
from .real import FAULTS, Fault

SHOWS = 1e-4
"""Relative to the spread of the outputs; what is less would not be called a fault by anybody."""
WORDS = {
    "onnxrt": ("diagnose", "model.onnx", "--onnxrt", "--onnx", "--format", "json"),
    "openvino": (
        *("diagnose", "model.onnx", "--openvino", "--openvino-precision", "f32"),
        *("--onnxrt", "--onnx", "--format", "json"),
    ),
}

_IGNORES_AXES = "2024.0.0"
"""Of an OpenVINO that takes no axes of a reduction that are an input, as from opset 18 on."""

# Runs each model of a folder as a user would, without Polygraphy.
IN_ONNXRT = """
import pathlib, sys
import numpy, onnxruntime
onnxruntime.set_default_logger_severity(4)
for folder in sys.argv[1:]:
    folder = pathlib.Path(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        outputs = session.run(None, dict(numpy.load(folder / "shown.npz")))
    except Exception as error:
        (folder / "refused.txt").write_text(str(error))
        continue
    numpy.savez(folder / "was.npz", *outputs)
"""
IN_OPENVINO = """
import pathlib, sys
import numpy, openvino
core = openvino.Core()
for folder in sys.argv[1:]:
    folder = pathlib.Path(folder)
    data = dict(numpy.load(folder / "shown.npz"))
    try:
        read = core.read_model(folder / "model.onnx")
        compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        for port in compiled.inputs:
            [name] = port.names & data.keys()
            request.set_tensor(port, openvino.Tensor(data[name]))
        request.infer()
    except Exception as error:
        (folder / "refused.txt").write_text(str(error))
        continue
    count = len(compiled.outputs)
    numpy.savez(folder / "was.npz", *(request.get_output_tensor(i).data for i in range(count)))
"""
RUN = {"onnxrt": IN_ONNXRT, "openvino": IN_OPENVINO}


def real_cases(
    folder: Path, seed: int, faulty: int, healthy: int, parties: Collection[str] = tuple(RUN)
) -> list[Case]:
    """Draw and write cases of each kind, and return those whose fault shows.

    Args:
        folder: where they are written.
        seed: of the draw.
        faulty: how many with a fault.
        healthy: how many without one.
        parties: whose faults.
    """
    rng = np.random.default_rng(seed)
    faults = [fault for fault in FAULTS if fault.party in parties]
    wanted = [(fault, True) for fault in _order(rng, faults, faulty)]
    mended = [fault for fault in faults if len(_right(fault))]
    wanted += [(mended[i % len(mended)], False) for i in range(healthy) if mended]
    cases = [_case(folder, rng, *row, number) for number, row in enumerate(wanted)]
    for party in RUN:
        _run(folder, party, [case for case in cases if case.words == WORDS[party]])
    return [case for case in cases if _stands(folder / case.name, bool(case.culprits))]


def _order(rng: np.random.Generator, faults: Sequence[Fault], count: int) -> list[Fault]:
    """Return faults in random order, each about equally often."""
    order: list[Fault] = []
    while len(order) < count:
        order += [faults[int(i)] for i in rng.permutation(len(faults))]
    return order[:count]


def _right(fault: Fault) -> list[str]:
    """Return the releases in which a fault is fixed."""
    later_versions = after(fault.last)
    if fault.name.startswith("MaxPool, SAME_UPPER"):
        return []  # Later releases reject this model, so none of them is correct.
    return later_versions[-3:] if "ReduceL1" in fault.name else later_versions[:3]


def _case(folder: Path, rng: np.random.Generator, fault: Fault, wrong: bool, number: int) -> Case:
    """Write a case with a fault of a released backend to its folder, and return it."""
    versions = between(fault.first, fault.last) if wrong else _right(fault)
    version = str(rng.choice(versions))
    host, style = str(rng.choice(list(fault.hosts))), str(rng.choice(STYLES))
    net = Net(int(rng.integers(2**31)), style, fault.opset)
    pattern: list[onnx.NodeProto] = []

    def embed(net: Net, tensor: str) -> str:
        """Add the pattern of the fault after a tensor, and return the output's name."""
        start = len(net.nodes)
        output = fault.build(net, tensor)
        pattern.extend(net.nodes[start:])
        return output

    model = net.model(HOSTS[host](net, embed, rng.random()))
    case = Case(
        name=f"real-{number:03d}",
        kind=fault.name,
        group="real",
        version=version,
        words=WORDS[fault.party],
        culprits=(_culprit(net, fault, pattern, version),) if wrong else (),
    )
    place = folder / case.name
    place.mkdir(parents=True)
    onnx.save(model, place / "model.onnx")
    np.savez(place / "shown.npz", **random_inputs(model, number))
    case.save(place)
    return case


def _culprit(net: Net, fault: Fault, pattern: Sequence[onnx.NodeProto], version: str) -> Culprit:
    """Return the culprit to find; OpenVINO may run the whole pattern as one node."""
    core = [net.identity(node) for node in net.core]
    if version == _IGNORES_AXES:
        # The host also contains such nodes, and the backend rejects one of them.
        core += [
            net.identity(node)
            for node in net.nodes
            if node.op_type.startswith("Reduce") and len(node.input) > 1
        ]
    names = {name for node in net.core for name in node.output}
    read = {name for node in net.core for name in node.input}
    beside = [
        net.identity(node)
        for node in net.nodes
        if node not in net.core
        and (
            names.intersection(node.input)
            or read.intersection(node.output)
            or (fault.party == "openvino" and node in pattern)
        )
    ]
    return Culprit(
        tuple(core),
        tuple(beside),
        party=(fault.party,),
        causes=(fault.cause, *fault.causes),
        rewrites=fault.rewrites,
    )


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Return normal data for float inputs, and token numbers for integer inputs."""
    rng = np.random.default_rng(seed)
    data = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            data[value.name] = rng.standard_normal(shape).astype(np.float32)
        else:
            data[value.name] = rng.integers(0, 50, shape)
    return data


def _run(folder: Path, party: str, cases: list[Case]) -> None:
    """Run the models of cases in their environments, one process for each."""
    for version in dict.fromkeys(case.version for case in cases):
        places = [str(folder / case.name) for case in cases if case.version == version]
        line = [python(version), "-c", RUN[party], *places]
        subprocess.run(line, check=True, stderr=subprocess.DEVNULL)


def _stands(place: Path, wrong: bool) -> bool:
    """Return whether the output of a case is wrong, or correct, as expected."""
    from polygraphy.backend.onnx import OnnxReferenceRunner

    if (place / "refused.txt").exists():
        return wrong
    with OnnxReferenceRunner(onnx.load(place / "model.onnx")) as runner:
        expected = list(runner.infer(dict(np.load(place / "shown.npz"))).values())
    got = np.load(place / "was.npz")
    apart = max(distance(got[f"arr_{i}"], array) for i, array in enumerate(expected))
    return apart > SHOWS if wrong else apart < SHOWS


def distance(value: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest error relative to the spread, or to the size of a constant.

    It is infinite if only one of the elements is finite.
    """
    if value.shape != expected.shape:
        return np.inf
    value, expected = value.astype(np.float64), expected.astype(np.float64)
    same = (value == expected) | (np.isnan(value) & np.isnan(expected))
    if not (np.isfinite(value) & np.isfinite(expected))[~same].all():
        return np.inf
    apart = np.where(same, 0.0, value - np.where(same, value, expected))
    finite = expected[np.isfinite(expected)]
    spread = float(finite.std() or np.abs(finite).max()) if finite.size else 0.0
    return float(np.abs(apart).max(initial=0)) / max(spread, 1e-9)
