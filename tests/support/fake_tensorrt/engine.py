"""Engines of either generation: functions of NumPy with a description."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.support.fake_tensorrt.names import (
    COMPONENTS,
    DataType,
    Dims,
    ExecutionContextAllocationStrategy,
    Tensor,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)

if TYPE_CHECKING:
    from tests.support.fake_tensorrt.module import FakeTensorRT

Function = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class CommonEngine:
    """Facts: `outputs` names outputs; `debug` maps debug tensors to functions of the inputs;
    `made` refers to the contexts that live; `layers` is what the inspector says, and each layer
    takes a microsecond more than the one before.
    """

    def __init__(
        self,
        module: FakeTensorRT,
        tensors: Sequence[Tensor],
        function: Function,
        *,
        outputs: Sequence[str],
        debug: Mapping[str, Function] | None = None,
        memory: int = 1024,
        streamable: int = 0,
        can_capture: bool = True,
        contexts: int = 99,
        is_old_plan: bool = False,
        shares_profiles: bool = False,
        refuses_others: bool = False,
        layers: Sequence[Any] = (),
    ) -> None:
        """Create an engine of tensors and a function from inputs to outputs."""
        self.module, self.function = module, function
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self.output_names = tuple(outputs)
        self.debug = dict(debug or {})
        self.memory = memory
        self.streamable_weights_size = streamable
        self.can_capture = can_capture
        self.contexts_left = contexts
        self.is_old_plan = is_old_plan
        self.shares_profiles = shares_profiles
        self.refuses_others = refuses_others
        self.layers = layers
        self.made: list[Any] = []
        self.profiles_in_use: set[int] = set()
        self.num_io_tensors = len(tensors)
        counts = [len(tensor.profiles) for tensor in tensors if tensor.profiles]
        self.num_optimization_profiles = max(counts, default=1)

    def create_engine_inspector(self) -> Any:
        """Return an inspector with the layers as JSON."""
        text = json.dumps({"Layers": self.layers, "Bindings": [*self.tensors]})
        return SimpleNamespace(get_engine_information=lambda form: text)

    def _report(self, profiler: Any) -> None:
        """Report the time of each layer, in milliseconds."""
        for number, layer in enumerate(self.layers, 1):
            profiler.report_layer_time(layer["Name"], number / 1e3)

    def _of(self, name: str) -> Tensor | None:
        """Return the tensor of a name; log an error and return None if there is none."""
        tensor = self.tensors.get(name)
        if tensor is None:
            self.module.error(f"Given invalid tensor name: {name}")
        return tensor

    def get_tensor_name(self, index: int) -> str:
        """Return the name of the tensor at an index."""
        return list(self.tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        """Return whether a tensor is an input or output; NONE for an unknown name."""
        if self._of(name) is None:
            return TensorIOMode.NONE
        return TensorIOMode.OUTPUT if name in self.output_names else TensorIOMode.INPUT

    def get_tensor_location(self, name: str) -> TensorLocation:
        """Return whether a tensor is on the host or on the device."""
        return TensorLocation(self.tensors[name].on_host)

    def get_tensor_shape(self, name: str) -> Dims:
        """Return the shape of a tensor in the engine; [81] for an unknown name."""
        tensor = self._of(name)
        return Dims((81,) if tensor is None else tensor.shape)

    def get_tensor_dtype(self, name: str) -> DataType:
        """Return the data type of a tensor."""
        return DataType[self.tensors[name].dtype]

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[Dims]:
        """Return minimum, optimum and maximum shape of a tensor in a profile."""
        return [Dims(part) for part in self.tensors[name].profiles[profile]]

    def get_tensor_format(self, name: str) -> TensorFormat:
        """Return the memory format of a tensor."""
        return TensorFormat[self.tensors[name].format]

    def get_tensor_vectorized_dim(self, name: str) -> int:
        """Return the axis that the format vectorizes; -1 for none."""
        self._refuse_linear(name)
        return 1 if COMPONENTS[self.tensors[name].format] > 1 else -1

    def get_tensor_components_per_element(self, name: str) -> int:
        """Return the number of components of a vector in the format."""
        self._refuse_linear(name)
        return COMPONENTS[self.tensors[name].format]

    def _refuse_linear(self, name: str) -> None:
        """Log an error if the format of a tensor is not vectorized."""
        if self.tensors[name].format == "LINEAR":
            self.module.error(f"{name} is not vectorized")

    def _context(self) -> Any:
        """Return a new context; log an error and return None if none is left."""
        if not self.contexts_left:
            self.module.error("Requested amount of GPU memory could not be allocated")
            return None
        self.contexts_left -= 1
        self.module.cuda.note("create_execution_context")
        context = self.module.IExecutionContext(self)
        context.is_refused = self.refuses_others and bool(self.made)
        self.made = [one for one in self.made if one() is not None] + [weakref.ref(context)]
        return context


class OldEngine(CommonEngine):
    @property
    def device_memory_size(self) -> int:
        """Return the bytes of memory of a context."""
        return self.memory

    def create_execution_context(self) -> Any:
        """Return a new context, or None."""
        return self._context()

    def create_execution_context_without_device_memory(self) -> Any:
        """Return a new context to which the caller assigns memory."""
        context = self._context()
        context.needs_memory = True
        return context


class Engine(CommonEngine):
    budget = 0

    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        """Return the memory format of a tensor in a profile."""
        return TensorFormat[self.tensors[name].format]

    @property
    def device_memory_size_v2(self) -> int:
        """Return the bytes of memory of a context; 0 for an old plan."""
        return 0 if self._refuses("device_memory_size_v2") else self.memory

    @property
    def device_memory_size(self) -> int:
        """Return the bytes of memory of a context."""
        return self.memory

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        """Return the bytes of memory for a profile; 0 for an old plan."""
        if self._refuses("get_device_memory_size_for_profile_v2"):
            return 0
        return self.memory * (profile_index + 1)

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        """Return the bytes of memory for a profile."""
        assert not self.is_old_plan, "the real one ends the process"
        return self.memory * (profile_index + 1)

    def is_debug_tensor(self, name: str) -> bool:
        """Return whether a tensor was marked for debugging."""
        return not self._refuses("is_debug_tensor") and name in self.debug

    def _refuses(self, what: str) -> bool:
        """Log an error if the plan is old, which lacks a function; return whether it is."""
        if self.is_old_plan:
            self.module.error(f"{what} is only supported from TensorRT 10 onwards")
        return self.is_old_plan

    def create_execution_context(
        self, strategy: Any = ExecutionContextAllocationStrategy.STATIC
    ) -> Any:
        """Return a new context with a memory strategy, or None."""
        context = self._context()
        if context is not None:
            context.needs_memory = strategy == ExecutionContextAllocationStrategy.USER_MANAGED
        return context

    def get_aliased_input_tensor(self, name: str) -> str | None:
        """Return the name of the input that shares the memory of an output, or None."""
        if self.is_old_plan:
            self.module.error("this engine does not support aliased tensors")
            return None
        return self.tensors[name].aliased

    def get_weight_streaming_automatic_budget(self) -> int:
        """Return the default number of bytes of weights on the device."""
        return self.streamable_weights_size // 4

    @property
    def weight_streaming_budget_v2(self) -> int:
        """Set or return the number of bytes of weights on the device."""
        return self.budget

    @weight_streaming_budget_v2.setter
    def weight_streaming_budget_v2(self, value: int) -> None:
        """Set or return the number of bytes of weights on the device."""
        if 0 <= value <= self.streamable_weights_size:
            self.budget = value
        else:
            self.module.error(f"Invalid budget {value}")
