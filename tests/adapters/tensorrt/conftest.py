"""What tests that build with TensorRT-RTX share, and those that run engines without a GPU."""

from tests.support.engines import any_trt, trt
from tests.support.rtx import mlp_path, rtx

__all__ = ["any_trt", "mlp_path", "rtx", "trt"]
