"""Operations that change a tensor in place: the program is compared with what it returns."""

from __future__ import annotations

import numpy as np
import pytest

from polygraphy.adapters.torch.source import TorchProgram

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.extra


def test_a_returned_tensor_that_was_written_to_is_the_result_of_an_operation() -> None:
    class Writing(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            held = torch.relu(x)
            held[:, :2] = held[:, :2] * 8
            return held

    feed = {"x": np.arange(6, dtype=np.float32).reshape(1, 6)}
    program = TorchProgram(Writing()).open(feed)
    tensors: dict[str, np.ndarray] = {}
    program.run(feed, tensors.__setitem__)
    [(_, returned)] = program.run(feed)
    last = [node for node in program.nodes if np.array_equal(tensors[node.name], returned)]
    assert [node.op for node in last] == ["aten.slice_scatter"]
    assert tensors["relu"].tolist() == feed["x"].tolist()
