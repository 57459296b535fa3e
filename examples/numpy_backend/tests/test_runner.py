"""The runner and the loader keep what every runner and loader promises, and agree with NumPy.

Needs pytest and hypothesis: ``pytest examples/numpy_backend``, where the package is installed.
"""

import numpy as np
import onnx
from hypothesis import given
from onnx import TensorProto, helper
from polygraphy_numpy import NumpyGraphFromOnnx, NumpyRunner

from polygraphy.common import TensorMetadata
from polygraphy.testing import check_loader, check_runner
from polygraphy.testing.strategies import feed_dicts

INPUTS = TensorMetadata().add("x", np.float32, ["rows", 3])


def model(op: str = "Relu") -> onnx.ModelProto:
    """Return a model of one operator."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in ("x", "y")
    )
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "one", [x], [y])
    return helper.make_model(graph)


def test_the_runner_keeps_to_its_port() -> None:
    feed = {"x": np.array([[-1, 0, np.nan]], np.float32)}
    check_runner(lambda: NumpyRunner(NumpyGraphFromOnnx(model())), feed)


def test_the_loader_keeps_to_its_port() -> None:
    check_loader(
        lambda: NumpyGraphFromOnnx(model()), lambda: NumpyGraphFromOnnx(model("NoSuchOperator"))
    )


@given(feed_dicts(INPUTS))
def test_any_data_are_computed(feed: dict[str, np.ndarray]) -> None:
    with NumpyRunner(NumpyGraphFromOnnx(model())) as runner:
        np.testing.assert_array_equal(runner.infer(feed)["y"], np.maximum(feed["x"], 0))
