"""The axis of positions of a chunk."""

from __future__ import annotations

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
