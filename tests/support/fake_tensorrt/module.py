"""What stands for the module."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tests.support.fake_cuda import FakeCudart
from tests.support.fake_tensorrt.context import Context, OldContext
from tests.support.fake_tensorrt.engine import Engine, Function, OldEngine
from tests.support.fake_tensorrt.names import (
    DataType,
    Dims,
    ExecutionContextAllocationStrategy,
    Severity,
    Tensor,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)


class FakeTensorRT:
    """Stands for the module.

    Attributes:
        log: what was logged as an error.
        generation: 8 or 10; what only the other one has is missing.
    """

    __name__ = "tensorrt"

    def __init__(self, cuda: FakeCudart, generation: int = 10) -> None:
        """Create the module of a generation (8 or 10) for a fake CUDA."""
        self.cuda, self.generation = cuda, generation
        self.__version__ = {8: "8.6.0", 10: "10.16.1.11"}[generation]
        self.log: list[str] = []
        self.loggers: list[Any] = []
        self.DataType, self.TensorIOMode = DataType, TensorIOMode
        self.TensorLocation, self.TensorFormat = TensorLocation, TensorFormat
        self.IOutputAllocator = type("IOutputAllocator", (), {})
        self.IProfiler = type("IProfiler", (), {})
        self.LayerInformationFormat = SimpleNamespace(JSON="json")
        self.ILogger = type("ILogger", (), {"Severity": Severity})
        self.IExecutionContext = Context if generation == 10 else OldContext
        self.ICudaEngine = Engine if generation == 10 else OldEngine
        self.Dims = Dims
        if generation == 10:
            self.IDebugListener = type("IDebugListener", (), {})
            self.ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy

    def engine(self, tensors: Sequence[Tensor], function: Function, **facts: Any) -> Any:
        """Return an engine; the tensors before the first output are inputs."""
        return self.ICudaEngine(self, tensors, function, **facts)

    def error(self, message: str) -> None:
        """Log an error to every logger."""
        self.log.append(message)
        for logger in self.loggers:
            logger.log(Severity.ERROR, message)
