"""The axis of positions of a chunk."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from polygraphy.domain.states.loading import StepLoader


@pytest.mark.parametrize(
    ("read", "axis"),
    [
        ("all = Concat <axis = 2> (c, x) n = Slice (all, low, high, at) y = Conv (all, w)", 2),
        ("y = Conv (x, w) n = Add (c, c)", 2),
        ("y = Mul (x, x) n = Add (c, c)", 1),
    ],
)
def test_positions_of_a_chunk_of_fixed_size_follow_from_the_nodes_that_read_it(
    read: str, axis: int
) -> None:
    loader = StepLoader(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[1,2,8] x, float[1,2,3] c) => (float[1,2,N] y, float[1,2,3] n)
            <float[2,2,4] w = {{1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}}, int64[1] low = {{-3}},
             int64[1] high = {{99}}, int64[1] at = {{2}}>
            {{ {read} }}"""),
        steps=2,
    )
    assert [feed.step.start for feed in loader] == [0, (8, 2)[axis == 1]]


@pytest.mark.parametrize(
    ("shape", "nodes", "length"),
    [
        ("5,1,4", "y, n = GRU <hidden_size = 3> (x, w, r, , , h)", 5),
        ("1,5,4", "t = Transpose <perm = [1,0,2]> (x) y, n = GRU <hidden_size = 3> (t, w, r, , , h)", 5),
        ("1,4", "s = Squeeze (h) g = Gemm (x, k) y = Identity (g) n = Tanh (h)", 1),
    ],
)  # fmt: skip
def test_positions_lie_along_the_time_axis_of_a_recurrent_node_and_not_along_features(
    shape: str, nodes: str, length: int
) -> None:
    rng = np.random.default_rng(1)
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[{shape}] x, float[1,1,3] h) => (float y, float[1,1,3] n) {{ {nodes} }}""")
    for name, dims in {"w": (1, 9, 4), "r": (1, 9, 3), "k": (4, 2)}.items():
        weight = rng.standard_normal(dims).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    loader = StepLoader(model, steps=2)
    assert [feed.step.start for feed in loader] == [0, length]
