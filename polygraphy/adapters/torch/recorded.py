"""The operations of a module that `torch.export` rejects, recorded while it runs on some data."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

from attrs import field, frozen

from polygraphy import mod
from polygraphy.domain.model.graph import Node, Origin

torch = mod.lazy_import("torch>=2.2")

Keep = Callable[[str, Any], None]
_NAME = "_polygraphy_name"


@frozen
class Call:
    """A recorded call, with names in place of tensors."""

    target: Any
    args: Any
    kwargs: Any


@frozen(eq=False)
class NamedTensor:
    """A tensor among the arguments of an operation."""

    name: str


@frozen
class ModuleRecording:
    """The operations that a module performs.

    Attributes:
        nodes: the operations in order, each with the name of its result.
        calls: the recorded call of each operation, by name.
        frames: the file and line of each operation in the module, by name.
        weights: tensors that operations read, and that are neither inputs nor results.
    """

    nodes: list[Node] = field(factory=list)
    calls: dict[str, Call] = field(factory=dict)
    frames: dict[str, tuple[str, int]] = field(factory=dict)
    weights: dict[str, Any] = field(factory=dict)

    def add(self, name: str, op: str, call: Call, origin: Origin | None) -> None:
        """Record an operation."""
        leaves = torch.utils._pytree.tree_leaves((call.args, call.kwargs))
        self.calls[name] = call
        if origin is not None:
            self.frames[name] = origin.path, origin.line
        reads = tuple(leave.name for leave in leaves if isinstance(leave, NamedTensor))
        self.nodes.append(Node(name, op, "", reads, (name,), origin=origin))


def record_call(
    module: Any, names: Sequence[str], tensors: Sequence[Any], keep: Keep | None = None
) -> ModuleRecording:
    """Return a recording of the operations during a call of a module.

    Args:
        module: the module.
        names: the names of its inputs.
        tensors: its inputs.
        keep: called with name and value of each result.
    """
    # A private module, but the only way to record operations.
    from torch.utils._python_dispatch import TorchDispatchMode

    recording = ModuleRecording()
    held_names = {
        id(value): name for name, value in (*module.named_parameters(), *module.named_buffers())
    }
    counts: dict[str, int] = {}
    for name, tensor in zip(names, tensors):
        setattr(tensor, _NAME, name)

    def name_of_tensor(tensor: Any) -> str:
        """Return the name of a tensor; an unknown one becomes a constant."""
        name = getattr(tensor, _NAME, None) or held_names.get(id(tensor))
        if name is None:  # The operation has no name, because Python created the tensor.
            name = f"constant_{len(recording.weights)}"
            setattr(tensor, _NAME, name)
        if name not in recording.calls and name not in names:
            recording.weights.setdefault(name, tensor)
        return str(name)

    def set_name(tensor: Any, name: str) -> None:
        """Name a tensor, and record a copy of it if requested."""
        setattr(tensor, _NAME, name)
        if keep is not None:
            keep(name, tensor.clone())  # A later operation may overwrite it.

    class Writer(TorchDispatchMode):  # type: ignore[misc]
        """Records operations."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            """Return the result of an operation, and record it."""
            tree_map_only = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda value: NamedTensor(name_of_tensor(value)), (args, kwargs or {})
            )
            torch_dispatch = func(*args, **(kwargs or {}))
            op = str(func._schema.name)
            own_name = op.rpartition("::")[2]
            number = counts[own_name] = counts.get(own_name, -1) + 1
            name = f"{own_name}_{number}" if number else own_name
            stack = [
                (frame_summary.filename, str(frame_summary.lineno))
                for frame_summary in traceback.extract_stack()
            ]
            recording.add(
                name,
                op.replace("::", "."),
                Call(func, *tree_map_only),
                Origin.of(stack[-2::-1], ""),
            )
            if isinstance(torch_dispatch, torch.Tensor):
                set_name(torch_dispatch, name)
            elif isinstance(torch_dispatch, (tuple, list)):
                for index, value in enumerate(torch_dispatch):
                    if isinstance(value, torch.Tensor):
                        part = f"{name}.{index}"
                        recording.add(
                            part, "getitem", Call(getitem, (NamedTensor(name), index), {}), None
                        )
                        set_name(value, part)
            return torch_dispatch

    with Writer():
        module(*tensors)
    return recording


def compute_operation(recording: ModuleRecording, name: str, value: Callable[[str], Any]) -> Any:
    """Return the result of a recorded operation for other input tensors.

    Args:
        recording: the recording of the module.
        name: the name of its result.
        value: returns a tensor by its name.
    """
    call = recording.calls[name]
    args, kwargs = torch.utils._pytree.tree_map_only(
        NamedTensor, lambda array: value(array.name), (call.args, call.kwargs)
    )
    return call.target(*args, **kwargs)
