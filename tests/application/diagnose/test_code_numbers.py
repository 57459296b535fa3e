"""Which scale or zero point of an operator on codes differs, beside all saved tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import BackendError
from polygraphy.ports.diagnosing import Compute
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

F, U8, I8 = np.float32, np.uint8, np.int8
DRAW = np.random.default_rng(3)
NUMBERS = {
    "xs": F(0.011), "xz": U8(131), "rs": F(0.017), "rz": U8(120), "ys": F(0.023), "yz": U8(126),
    "xs2": F(0.011), "xz2": U8(131), "ys2": F(0.023), "yz2": U8(126),
    "w": DRAW.integers(-60, 60, (12, 7)).astype(I8), "ws": F(0.01), "wz": I8(0),
    "cs": DRAW.uniform(0.006, 0.016, 7).astype(F), "cz": np.zeros(7, I8),
}  # fmt: skip
ADD = """before = QuantizeLinear(h, xs2, xz2) r = QuantizeLinear(e, rs, rz)
    y = com.microsoft.QLinearAdd(before, xs, xz, r, rs, rz, ys, yz)
    z = DequantizeLinear(y, ys2, yz2)"""
PRODUCT = """x = Identity(i) y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz) z = Identity(y)"""
CHANNELS = PRODUCT.replace("ws, wz", "cs, cz")
FILE = """before = QuantizeLinear(h, xs, xz) r = QuantizeLinear(e, rs, rz)
    y = com.microsoft.QLinearMul(before, xs, xz, r, rs, rz, ys, yz) z = DequantizeLinear(y, ys, yz)
    """


def model_of(nodes: str, numbers: dict[str, Any]) -> onnx.ModelProto:
    kind = "uint8" if "Identity(i)" in nodes else "float"
    start = "" if kind == "uint8" else "h = Tanh(i) e = Sin(i)"
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 19, "com.microsoft": 1]>
        m ({kind}[6, 12] i) => (float z) {{ {start} {nodes} }}""")
    for node in model.graph.node:
        node.name = node.output[0]
    model.graph.output[0].ClearField("type")
    used = {name for node in model.graph.node for name in node.input}
    arrays = {name: np.asarray(value) for name, value in numbers.items() if name in used}
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in arrays.items())
    return model


class OnlyConstants(OnnxrtParty):
    """A backend whose kernels need scales and zero points as constants."""

    def load(self, model: Any, **how: Any) -> Compute:
        if len(model.graph.input) > 1:
            raise BackendError("not a constant")
        return super().load(model, **how)


def find_culprit(
    folder: Path, nodes: str, changed: dict[str, Any], party: type[OnnxrtParty] = OnnxrtParty
) -> dict[str, Any]:
    """Return the culprit if numbers of a model changed since its tensors were saved."""
    marked = model_of(nodes, NUMBERS)
    names = [node.output[0] for node in marked.graph.node[:-1]]
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    draw = np.random.default_rng(5)
    codes = draw.integers(40, 216, (6, 12)).astype(U8)
    feed = {"i": codes if "Identity(i)" in nodes else draw.standard_normal((6, 12)).astype(F)}
    results = RunResults()
    results.add([OnnxrtParty().load(marked)(feed)], runner_name="onnxrt")
    results.save(golden := str(folder / "golden.json"))
    onnx.save(model_of(nodes, {**NUMBERS, **changed}), path := str(folder / "m.onnx"))
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(path, [party()], [feed], golden=golden)
    [culprit] = kept.culprits
    assert culprit["cause"] == "quantization"
    return culprit


@pytest.mark.parametrize(
    ("nodes", "changed", "words"),
    [
        (ADD, {"ys": F(0.041)}, ["scale 'ys' of QLinearAdd is 0.041 instead of 0.023"]),
        (ADD, {"yz": U8(119)}, ["zero point 'yz' of QLinearAdd is 119 instead of 126"]),
        (ADD, {"xs": F(0.02), "xz": U8(99)},
         ["'xs' of QLinearAdd is 0.02 instead of 0.011 and the zero point 'xz' of"]),
        (CHANNELS, {"cs": np.where(np.arange(7) == 4, F(2), F(1)) * NUMBERS["cs"]},
         ["scale 'cs' of QLinearMatMul differs in 1 of 7 elements"]),
        (PRODUCT, {"ws": F(0.02)},
         ["each of these changes alone explains the result", "'xs'", "'ws'", "'ys'"]),
    ],
)  # fmt: skip
def test_the_number_that_differs_is_named(
    tmp_path: Path, nodes: str, changed: dict[str, Any], words: list[str]
) -> None:
    culprit = find_culprit(tmp_path, nodes, changed)
    said = " ".join(map(str, culprit["evidence"]))
    assert culprit["nodes"] == ["y"] and all(word in said for word in words)
    assert culprit["remedy"]["proven"]


def test_a_number_that_the_nodes_of_a_tensor_share_is_one_culprit(tmp_path: Path) -> None:
    culprit = find_culprit(tmp_path, FILE, {"ys": F(0.041)})
    assert culprit["nodes"] == ["y", "z"]
    said = " ".join(map(str, culprit["evidence"]))
    assert "scale 'ys' is 0.041 instead of 0.023" in said
    assert culprit["remedy"]["proven"] and culprit["remedy"]["note"].count("0.041") == 1


def test_numbers_are_constants_where_a_kernel_needs_that(tmp_path: Path) -> None:
    culprit = find_culprit(tmp_path, PRODUCT, {"yz": U8(111)}, OnlyConstants)
    assert "'yz' of QLinearMatMul is 111 instead of 126" in " ".join(map(str, culprit["evidence"]))
