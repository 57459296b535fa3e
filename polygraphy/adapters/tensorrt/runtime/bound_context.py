"""An execution context, its settings, and the graph of what it does."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.library.logger import capture_log
from polygraphy.adapters.tensorrt.runtime.graphs import GraphPolicy
from polygraphy.adapters.tensorrt.runtime.input_errors import check_shape, refused
from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import InputError

Shape = tuple[int, ...]


class BoundContext:
    """Tells a context what is other than before, and remembers what it answered.

    A graph holds for the state in which its context was captured, and for no other one.

    Attributes:
        native: the `IExecutionContext`; None once it is let go of.
        graphs: when its work is captured, and the graph.
        is_proven: whether it has run.
    """

    def __init__(self, native: Any, profile: int, graphs: GraphPolicy) -> None:
        """Take a context in an optimisation profile; nothing is known of it yet."""
        self.native = native
        self.graphs = graphs
        self.is_proven = False
        self._profile = profile
        self._arrangement: Any = None
        self.forget()

    def forget(self) -> None:
        """Set everything again the next time."""
        self._set_shapes: dict[str, Shape] = {}
        self._set_addresses: dict[str, int] = {}
        self._know_nothing()

    def _know_nothing(self) -> None:
        self._is_complete = False
        self._shapes: dict[str, Shape] = {}
        self._strides: dict[str, Shape] = {}

    def tell_shape(self, tensor: IoTensor, shape: Shape) -> None:
        """Set the shape of an input.

        Raises:
            InputError: the profile does not take it.
            BackendError: TensorRT does not.
        """
        name = tensor.name
        if self._set_shapes.get(name) == shape:
            return
        check_shape(tensor, shape, self._profile)
        self._set_shapes.pop(name, None)
        self._know_nothing()
        with capture_log() as reasons:
            accepted = self.native.set_input_shape(name, shape)
        if not accepted:
            raise refused(f"shape {shape} for input {name!r}", reasons)
        self._set_shapes[name] = shape

    def tell_address(self, name: str, address: int) -> None:
        """Set where an input or output is; BackendError when TensorRT refuses."""
        if self._set_addresses.get(name) == address:
            return
        with capture_log() as reasons:
            accepted = self.native.set_tensor_address(name, address)
        if not accepted:
            raise refused(f"the address of {name!r}", reasons)
        self._set_addresses[name] = address

    def require_shapes(self) -> None:
        """Do nothing if the shapes of all inputs are known.

        Raises:
            InputError: some are not.
            BackendError: the shapes, or values that are shapes, do not fit each other.
        """
        if self._is_complete:
            return
        with capture_log() as reasons:
            try:
                missing = self.native.infer_shapes()
            except RuntimeError as error:
                reasons.add(str(error))
                raise refused("these shapes, or these values of shapes", reasons) from error
        if missing:
            raise InputError(f"TensorRT does not know the shapes of {', '.join(missing)} yet.")
        self._is_complete = True

    def shape_of(self, name: str) -> Shape:
        """Return the shape of a tensor; negative where it depends on the data."""
        shape = self._shapes.get(name)
        if shape is None:
            shape = self._shapes[name] = tuple(self.native.get_tensor_shape(name))
        return shape

    def strides_of(self, name: str) -> Shape:
        """Return the distances between elements of a tensor in its format."""
        strides = self._strides.get(name)
        if strides is None:
            strides = self._strides[name] = tuple(self.native.get_tensor_strides(name))
        return strides

    def arranged(self, arrangement: Any) -> None:
        """Take note of everything that a graph depends on, and drop the graph of another state."""
        if arrangement != self._arrangement:
            self.graphs.drop()
            self._arrangement = arrangement

    def free(self) -> None:
        """Let go of the context and of its graph."""
        self.graphs.drop()
        self.native = None
