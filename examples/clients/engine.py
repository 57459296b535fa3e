"""A TensorRT engine with its own buffers, as in pipelines of several models.

python engine.py model.onnx model.plan INPUT:MIN,OPT,MAX ...

where MIN, OPT and MAX are shapes such as 1x3x224x224.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import tensorrt as trt

from polygraphy import cuda
from polygraphy.backend.common import bytes_from_path
from polygraphy.backend.trt import (
    CreateConfig,
    ModifyNetworkOutputs,
    Profile,
    engine_from_bytes,
    engine_from_network,
    network_from_onnx_path,
    save_engine,
)
from polygraphy.backend.trt import util as trt_util

Shapes = dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]


class Engine:
    """Builds, loads and runs one engine. All calls use the same buffers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.engine: trt.ICudaEngine = None
        self.context: trt.IExecutionContext = None
        self.buffers: OrderedDict[str, cuda.DeviceArray] = OrderedDict()
        self.stream: cuda.Stream | None = None

    def __del__(self) -> None:
        self.free()

    def free(self) -> None:
        """Free the buffers and the execution context."""
        for buffer in self.buffers.values():
            buffer.free()
        self.buffers = OrderedDict()
        if self.stream is not None:
            self.stream.free()
        self.stream = self.context = self.engine = None

    def build(
        self,
        onnx_path: str,
        shapes: Shapes,
        *,
        fp16: bool = False,
        timing_cache: str | None = None,
        outputs: list[str] | None = None,
    ) -> None:
        """Build the engine and save it."""
        profile = Profile()
        for name, (smallest, usual, largest) in shapes.items():
            profile.add(name, min=smallest, opt=usual, max=largest)
        flags = getattr(trt, "OnnxParserFlag", None)  # TensorRT 8.6.0 has none.
        network = network_from_onnx_path(
            onnx_path, flags=[flags.NATIVE_INSTANCENORM] if flags else None
        )
        if outputs:
            network = ModifyNetworkOutputs(network, outputs)
        engine = engine_from_network(
            network,
            config=CreateConfig(
                fp16=fp16,
                refittable=False,
                profiles=[profile],
                load_timing_cache=timing_cache,
                memory_pool_limits={trt.MemoryPoolType.WORKSPACE: 1 << 28},
            ),
            save_timing_cache=timing_cache,
        )
        save_engine(engine, path=self.path)

    def load(self) -> None:
        """Load the engine from its file."""
        trt_util.get_trt_logger()
        self.engine = engine_from_bytes(bytes_from_path(self.path))

    def activate(self) -> None:
        """Create the execution context."""
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()

    def allocate_buffers(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Allocate a buffer for each input in its shape, and for each output."""
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        inputs = [n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        for name in inputs:
            self.context.set_input_shape(name, shapes[name])
        for name in names:
            shape = tuple(self.context.get_tensor_shape(name))
            dtype = trt_util.np_dtype_from_trt(self.engine.get_tensor_dtype(name))
            if name in self.buffers:
                self.buffers[name].free()
            self.buffers[name] = cuda.DeviceArray(shape=shape, dtype=dtype)

    def infer(self, feed_dict: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the engine and return all outputs."""
        stream = self.stream
        assert stream is not None
        for name, array in feed_dict.items():
            self.buffers[name].copy_from(host_buffer=np.ascontiguousarray(array), stream=stream)
        for name, buffer in self.buffers.items():
            self.context.set_tensor_address(name, buffer.ptr)
        if not self.context.execute_async_v3(stream.ptr):
            raise RuntimeError(f"{self.path} could not be run.")
        stream.synchronize()
        return {
            name: buffer.numpy() for name, buffer in self.buffers.items() if name not in feed_dict
        }

    def views(self) -> dict[str, cuda.DeviceView]:
        """Return views of the buffers for use by other libraries."""
        return {
            name: cuda.DeviceView(ptr=buffer.ptr, shape=buffer.shape, dtype=buffer.dtype)
            for name, buffer in self.buffers.items()
        }


def _shapes(words: list[str]) -> Shapes:
    parsed = {}
    for word in words:
        name, _, text = word.rpartition(":")
        low, usual, high = (tuple(map(int, each.split("x"))) for each in text.split(","))
        parsed[name] = (low, usual, high)
    return parsed


def main(onnx_path: str, path: str, *words: str) -> None:
    shapes = _shapes(list(words))
    engine = Engine(path)
    if not Path(path).exists():
        engine.build(onnx_path, shapes)
    engine.load()
    engine.activate()
    engine.allocate_buffers({name: usual for name, (_, usual, _) in shapes.items()})
    feed = {name: np.ones(engine.buffers[name].shape, np.float32) for name in shapes}
    for name, array in engine.infer(feed).items():
        print(f"{name}: shape {array.shape}, mean {array.mean():.6g}")
    print(f"bindings of a profile: {trt_util.get_bindings_per_profile(engine.engine)}")
    engine.free()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python engine.py model.onnx model.plan INPUT:MIN,OPT,MAX ...")
    main(*sys.argv[1:])
