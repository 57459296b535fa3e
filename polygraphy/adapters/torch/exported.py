"""Programs of `torch.export`: graphs that name their inputs, their outputs and what is between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy import mod
from polygraphy.adapters.torch.errors import check_compiler, translated_errors
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

torch = mod.lazy_import("torch>=2.2")


class Exported:
    """A `torch.export.ExportedProgram`; implements `Program`.

    Tensors are called as in the program's graph. The ONNX model that `torch.onnx.export` makes of a
    program calls them the same.
    """

    def __init__(self, program: Any) -> None:
        self._program = program
        self._module: Any = None
        self._call: Any = None

    def inputs(self) -> TensorMetadata | None:
        """Describe the inputs; dimensions that may vary are texts."""
        names = self._program.graph_signature.user_inputs
        values = {node.name: node.meta.get("val") for node in self._program.graph.nodes}
        metadata = TensorMetadata()
        for name in names:
            value = values.get(name)
            if not isinstance(value, torch.Tensor):
                continue  # A constant argument, such as None or 3.
            shape = [dim if isinstance(dim, int) else str(dim) for dim in value.shape]
            metadata.add(name, DataType.from_dtype(value.dtype, "torch"), shape)
        return metadata

    def output_names(self) -> Sequence[str] | None:
        """Return the names of the outputs, in the order in which the graph returns them."""
        return [str(name) for name in self._program.graph_signature.user_outputs]

    def start(self, device: str | None, compiled: bool) -> Any:
        """Make a module of the program, on a device of its own where one is given."""
        check_compiler()
        program = self._program
        if device is not None:
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, device)
        self._module = self._call = program.module()
        if compiled:
            with translated_errors("compile"):
                self._call = torch.compile(self._module)
        held = next(iter([*program.state_dict.values(), *program.constants.values()]), None)
        place = getattr(held, "device", None)
        return torch.device(place or device or "cpu")

    def run(self, tensors: Sequence[Any]) -> Any:
        """Call the program with its arguments arranged as when it was exported."""
        args, kwargs = self._arranged(tensors)
        return self._call(*args, **kwargs)

    def _arranged(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        from torch.utils import _pytree as pytree  # What describes the arguments has no other name.

        given = iter(tensors)
        described = self.inputs() or TensorMetadata()
        leaves = [
            next(given) if name in described else name
            for name in self._program.graph_signature.user_inputs
        ]
        arranged = pytree.tree_unflatten(leaves, self._program.call_spec.in_spec)
        return arranged[0], arranged[1]

    def run_all(self, tensors: Sequence[Any]) -> Mapping[str, Any]:
        """Run the program node by node, and return every tensor that one computes."""
        computed: dict[str, Any] = {}

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc, name-defined]
            """Keeps what each operation computes."""

            def run_node(self, node: Any) -> Any:
                result = super().run_node(node)
                if node.op == "call_function" and isinstance(result, torch.Tensor):
                    computed[node.name] = result.clone()  # A later operation may overwrite it.
                return result

        args, kwargs = self._arranged(tensors)
        leaves = [*args, *kwargs.values()]
        Recorder(self._module).run(*leaves)
        return computed

    def stop(self) -> None:
        """Let go of the module."""
        self._module = self._call = None
