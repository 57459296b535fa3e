"""A backend that runs ONNX models in NumPy."""

from polygraphy_numpy.runner import NumpyGraphFromOnnx, NumpyRunner

__all__ = ["NumpyGraphFromOnnx", "NumpyRunner"]
