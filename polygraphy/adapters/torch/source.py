"""A PyTorch program from which an ONNX model was exported: all its tensors, and each operator in
isolation."""

from __future__ import annotations

import copy
import inspect
import io
import json
import shlex
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from linecache import getline
from typing import Any

from attrs import evolve

from polygraphy import mod
from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.torch.arrays import array_from, tensor_from
from polygraphy.adapters.torch.branches import describe_condition, place_of_number
from polygraphy.adapters.torch.caches import FlatCacheModule, cache_entries
from polygraphy.adapters.torch.decisions import call_with_outcome, record_decisions
from polygraphy.adapters.torch.precision import disable_tf32, stored_precision
from polygraphy.adapters.torch.program import (
    ExportedModule,
    Module,
    Program,
    TorchFromPath,
    call_on_device,
    constants_of,
    disable_fused_attention,
    get_model,
    mute_exporters,
    program_of,
    release_cached_memory,
    translate_errors,
)
from polygraphy.adapters.torch.program_inputs import fit_input, input_names, open_dimensions
from polygraphy.adapters.torch.recorded import ModuleRecording, compute_operation, record_call
from polygraphy.adapters.torch.runner import tensors_in
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model.graph import ARGUMENTS, Attribute, Node, Origin, frames_in
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.diagnosing import Decision, Exporter
from polygraphy.python_command import SAFE_PATH

torch = mod.lazy_import("torch>=2.2")
numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_SWITCHES = ("train", "training")
_SHARES = ("p", "dropout_p", "dropout")
_OPSETS = (18, 20, 22)
"""Opsets that are tried if a different export may be correct."""
_OLDER: dict[str, Any] = {"dynamo": False}
"""The older exporter, which traces a module."""
_TRACED = "torch.jit.trace(p.module(), p.example_inputs[0])"


@mod.export()
class TorchProgram:
    """A PyTorch program from which a model was exported; implements the port `SourceProgram`."""

    name = "torch"

    def __init__(self, model: Deferred[Any], device: str | None = None) -> None:
        """Create a source of a program for a diagnosis, on a device.

        Args:
            model: a `torch.export.ExportedProgram`, whose tensors are all known; a
                `torch.nn.Module`, which is exported in evaluation mode for the input data; or
                TorchScript, of which only the outputs are known. Or a function that returns one of
                these, or a tuple that begins with one.
            device: its device, such as ``cuda`` or ``cuda:1`` (default: its current one). The
                program is moved to this device, and `close` moves it back.
        """
        self._given = model
        self._device = device
        self._moved: tuple[Program, Any] | None = None
        self._model: Any = None
        self._opened: dict[Any, OpenedTorch] = {}
        # Keys are the names of the inputs in the data.
        self._runs: dict[tuple[str, ...], OpenedTorch] = {}

    def open(self, feed: Mapping[str, Any]) -> OpenedTorch:
        """Return the program opened for data, once for each of their shapes."""
        self._load()
        key = tuple((name, numpy.shape(array)) for name, array in feed.items())
        if key in self._opened:
            return self._opened[key].open_for(feed)
        self._opened[key] = self._open_program(feed)
        return self._opened[key]

    def run(self, feed: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the name and value of each output for data of any shape; see the port."""
        self._load()
        key = tuple(feed)
        if key not in self._runs:
            program = program_of(self._with_flat_inputs(key))
            self._runs[key] = OpenedTorch(program, input_names(program, feed))
        return self._runs[key].run(feed)

    def lost_inputs(self, feed: Mapping[str, Any]) -> list[str]:
        """Return the inputs in the data that the program does not have; see the port."""
        self._load()
        wanted = program_of(self._with_flat_inputs(tuple(feed))).inputs() or TensorMetadata()
        return [name for name in wanted if name not in feed] if len(wanted) > len(feed) else []

    def _load(self) -> None:
        """Load the program, and move it to the device."""
        if self._model is not None:
            return
        model = get_model(self._given)
        self._model = model[0] if isinstance(model, tuple) else model
        if self._device is not None:
            program = program_of(self._model)
            with translate_errors("start"):
                before = program.start(None, compiled=False)
                program.stop()
                program.move(self._device)
            self._moved = program, before

    @property
    def uses_device(self) -> bool:
        """Return whether the program runs on a device; see the port."""
        return self._device is not None and torch.device(self._device).type != "cpu"

    @property
    def weight_dtype(self) -> str | None:
        """Return the half precision of the weights; None if no weight has one. See the port."""
        self._load()
        return stored_precision(self._model)

    def on_host(self) -> TorchProgram | None:
        """Return a copy of the program on the CPU; None if it runs there. See the port."""
        self._load()
        program = program_of(self._model)
        device = torch.device(program.start(None, compiled=False))
        program.stop()
        if device.type == "cpu":
            return None
        if isinstance(self._given, TorchFromPath):
            return TorchProgram(self._given, "cpu")  # Each call loads the file again.
        with translate_errors("copy"):
            return TorchProgram(copy.deepcopy(self._model), "cpu")

    def random_weights(self) -> list[str]:
        """Return the weights with other values after the function is called again; see the port."""
        self._load()
        if isinstance(self._given, TorchFromPath) or not isinstance(self._model, torch.nn.Module):
            return []
        model = get_model(self._given)
        again = model[0] if isinstance(model, tuple) else model
        if again is self._model or not isinstance(again, torch.nn.Module):
            return []
        with translate_errors("compare"):
            return _differing_weights(self._model.state_dict(), again.state_dict())

    def close(self) -> None:
        """Move the program back to its original device, and release memory of the other."""
        self._opened.clear()
        self._runs.clear()
        if self._moved is not None:
            (program, before), self._moved = self._moved, None
            program.move(before)
            self._model = None
            release_cached_memory(self._device)

    def _with_flat_inputs(self, names: Sequence[str]) -> Any:
        """Return the program.
        A module with a cache is wrapped to accept the cache's tensors as inputs."""
        entries = cache_entries(self._model, names)
        return FlatCacheModule.of(self._model, names, entries) if entries else self._model

    def _open_program(self, feed: Mapping[str, Any]) -> OpenedTorch:
        """Return the program opened for data: exported, traced or recorded."""
        model = self._with_flat_inputs(tuple(feed))
        program = program_of(model)
        path = self._given.path if isinstance(self._given, TorchFromPath) else ""
        if isinstance(program, ExportedModule):
            return OpenedTorch(program, input_names(program, feed), path)
        assert isinstance(program, Module)
        names = input_names(program, feed)
        notes = []
        if any(part.training for part in self._model.modules()):
            notes.append("The module is in training mode; it was compared in evaluation mode.")
        device = program.start(None, compiled=False)
        try:
            args = [
                tensor_from(name, feed[given_name], device)
                for name, given_name in names.items()
                if given_name
            ]
            with torch.no_grad():
                exported = program.export(args).without_writes()
        except UsageError as error:
            return self._open_recorded(program, names, args, [*notes, str(error)])
        finally:
            program.stop()
        ends = exported.inputs() or TensorMetadata()
        named = dict(zip(ends, names.values()))
        return OpenedTorch(exported, named, notes=notes, module=model)

    def _open_recorded(
        self,
        program: Module,
        names: Mapping[str, str | None],
        args: Sequence[Any],
        notes: Sequence[str],
    ) -> OpenedTorch:
        """Return a module that `torch.export` does not support, opened by recording its operations
        on the data.
        """
        try:
            with torch.no_grad():
                recording = record_call(
                    program.model, [name for name in names if names[name]], args
                )
        except Exception:
            # Code of the module, or TorchScript, can raise anything while it is traced.
            return OpenedTorch(program, names, notes=["Only outputs were compared.", *notes])
        recorded = (
            "torch.export does not support the module, so its operations were recorded while it"
            " ran."
        )
        return OpenedModule(program, names, recording, [*notes[:-1], recorded])


def _differing_weights(state: Mapping[str, Any], other_state: Mapping[str, Any]) -> list[str]:
    """Return the names of the tensors with different values in two states of a module."""
    names = [name for name in state if name in other_state and torch.is_tensor(state[name])]
    return [
        name
        for name in names
        if state[name].shape == other_state[name].shape
        and not torch.equal(state[name], other_state[name].to(state[name].device))
    ]


class OpenedTorch:
    """A program opened for data of one shape; implements the port `OpenedProgram`."""

    def __init__(
        self,
        program: Program,
        names: Mapping[str, str | None],
        path: str = "",
        notes: Sequence[str] = (),
        module: Any = None,
    ) -> None:
        """Set the opened program, the names of its inputs, and notes.

        Args:
            program: the program that runs it.
            names: the input of the model for each input of the program; None if the model has none.
            path: its file.
            notes: notes about it.
            module: the module that it was exported from, if known.
        """
        self.notes = notes
        self.release = str(torch.__version__).partition("+")[0]
        self._module = module
        self._program = program
        self._names = names
        self._path = path
        self._exported = program.exported if isinstance(program, ExportedModule) else None
        self._graph = (
            {node.name: node for node in self._exported.graph.nodes} if self._exported else {}
        )
        calls = [node for node in self._graph.values() if node.op == "call_function"]
        self.nodes = [_describe_operation(node) for node in calls]
        self.weights: Mapping[str, Any] = (
            _Weights(self._constants_by_placeholder()) if self._exported else {}
        )
        drawing = (
            _describe_randomness(call.target, call.args, call.kwargs, node)
            for call, node in zip(calls, self.nodes)
        )
        self.unsteady = next(filter(None, drawing), "")
        self.open_dimensions = open_dimensions(self._program, names)

    def open_for(self, feed: Mapping[str, Any]) -> OpenedTorch:
        """Return the program opened for other data of the same shapes."""
        return self

    def run(
        self, feed: Mapping[str, Any], keep: Callable[[str, Any], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Return the name and value of each output; see the port."""
        tensors = self._start_program(feed)
        try:
            with translate_errors("run"), torch.no_grad(), disable_tf32():
                if keep is not None and isinstance(self._program, ExportedModule):
                    self._program.run_all(
                        tensors, lambda name, value: keep(name, array_from(value))
                    )
                    return []
                new_pairs = tensors_in(self._program.run(tensors))
                names: Sequence[str] = [name for name, _ in new_pairs]
                if any(name.partition(".")[0].isdecimal() or not name for name in names):
                    names = self._program.output_names() or names  # No keys of a dictionary.
                if len(names) != len(new_pairs):
                    names = [f"output_{index}" for index in range(len(new_pairs))]
                return [(name, array_from(value)) for name, (_, value) in zip(names, new_pairs)]
        finally:
            self._program.stop()

    def _start_program(self, feed: Mapping[str, Any]) -> list[Any]:
        """Start the program, and return its inputs."""
        described = self._program.inputs() or TensorMetadata()
        device = self._program.start(None, compiled=False)
        return [fit_input(name, feed, self._names[name], described, device) for name in self._names]

    def run_operation(self, name: str, values: Mapping[str, Any], feed: Mapping[str, Any]) -> Any:
        """Return the result of an operation on given values in float64."""
        given_values = {
            own_name: feed[name] for own_name, name in self._names.items() if name is not None
        }
        known_values = ChainMap({}, values, given_values, self.weights)  # type: ignore[arg-type]
        try:
            with torch.no_grad():
                operation = self._compute_operation(name, known_values)
            return array_from(operation) if isinstance(operation, torch.Tensor) else None
        except Exception:  # Some operators do not support float64, or cannot run in isolation.
            return None

    def condition_of(self, name: str) -> str:
        """Return a phrase for the Python `if` that decides whether an operation runs.
        See the port."""
        trace = self._graph[name].meta.get("stack_trace") if name in self._graph else None
        origin = Origin.of(frames_in(trace or ""), "")
        if origin is None or getline(origin.path, origin.line).strip() not in str(trace):
            return ""  # The source file has changed since the export.
        return describe_condition(origin.path, origin.line)

    def line_of_number(self, name: str) -> str:
        """Return the source line that computes a number which an operation reads; see the port."""
        node = next((node for node in self.nodes if node.name == name), None)
        if node is None or node.origin is None:
            return ""
        place = place_of_number(node.origin.path, node.origin.line)
        return str(evolve(node.origin, path=place[0], line=place[1])) if place else ""

    def _in_float64(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return a tensor in float64; other values, such as sizes and tuples, unchanged."""
        if name not in values:
            return self._compute_operation(name, values)
        tensor = tensor_from(name, values[name], "cpu")
        return tensor.double() if tensor.is_floating_point() else tensor

    def _compute_operation(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return the result of an operation on known arrays."""

        def value(array: Any) -> Any:
            """Return the value of an operand in float64."""
            return self._in_float64(array.name, values)

        node = self._graph[name]
        if node.op != "call_function":
            raise KeyError(node.name)
        args = torch.fx.node.map_arg(node.args, value)
        kwargs = torch.fx.node.map_arg(node.kwargs, value)
        return node.target(*args, **{k: v for k, v in kwargs.items() if k != "device"})

    def _constants_by_placeholder(self) -> dict[str, Any]:
        """Return parameters, buffers and constants by the names of their placeholders."""
        assert self._exported is not None
        signature = self._exported.graph_signature
        named = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **getattr(signature, "inputs_to_lifted_tensor_constants", {}),
        }
        state = {**constants_of(self._exported), **self._exported.state_dict}
        return {name: state[value] for name, value in named.items() if value in state}

    def decisions(self, feed: Mapping[str, Any]) -> Sequence[Decision]:
        """Return the decisions of the module's `if`s and loops for some data; see the port."""
        if self._module is None:
            return []
        program = program_of(self._module)
        described = self._program.inputs() or TensorMetadata()
        device = program.start(None, compiled=False)
        try:
            tensors = [
                fit_input(name, feed, self._names[name], described, device) for name in self._names
            ]
            with translate_errors("run"), torch.no_grad():
                return record_decisions(lambda: program.run(tensors))
        finally:
            program.stop()

    def exports(self) -> Iterator[tuple[str, str, Callable[[Mapping[str, Any]], Any]]]:
        """Yield options, command and function of other ways to export the program; see the port."""
        if self._exported is None or not mod.has_mod("onnxscript"):
            return
        opsets = ({"opset_version": opset} for opset in _OPSETS)
        for arguments in [{}, {"optimize": False}, _OLDER, *opsets]:
            options = ", ".join(
                f"{name}={value}" for name, value in {"dynamo": True, **arguments}.items()
            )
            text = "p" if arguments is not _OLDER else f"{_TRACED}, p.example_inputs[0]"
            code = (
                f"{SAFE_PATH}import torch; p = torch.export.load({json.dumps(self._path)});"
                f' torch.onnx.export({text}, f="exported.onnx", {options})'
            )
            command = shlex.join(["python", "-c", code]) if self._path else ""
            yield options, command, partial(_export_quietly, self._exported, arguments)

    def export_again(self, feed: Mapping[str, Any], exporter: Exporter) -> tuple[Any, str]:
        """Return the program exported with this data, and the command line that exports it.
        It is exported in the same way as the model. The command line is empty if there is none.
        """
        described = self._program.inputs() or TensorMetadata()
        arrays = [
            fit_input(name, feed, self._names[name], described, "cpu") for name in self._names
        ]
        names = [self._names[name] or name for name in self._names]
        options: dict[str, Any] = {"dynamo": exporter.dynamo, "opset_version": exporter.opset}
        if self._module is None and exporter.dynamo:
            dynamo = _export_with_dynamo(self._exported, (), options)
            return dynamo, self._export_command(options) if self._path else ""
        sizes = {name: dict(axes) for name, axes in exporter.sizes.items() if axes}
        if not exporter.dynamo:
            options["input_names"] = names  # An input on which no tensor depends is omitted.
        if sizes and not exporter.dynamo:
            options["dynamic_axes"] = sizes
            # The exporter numbers tensors itself.
            if not any(name.isdigit() for name in exporter.outputs):
                options["output_names"] = list(exporter.outputs)
        with mute_exporters(), torch.no_grad(), disable_fused_attention():
            if self._module is None:
                assert self._exported is not None
                program = self._exported.module()
                traced = torch.jit.trace(program, tuple(arrays))
                return _export_older(traced, tuple(arrays), options), ""
            trained = [part for part in self._module.modules() if part.training]
            self._module.eval()
            try:
                if sizes and exporter.dynamo:
                    # PyTorch 2.5 has no `DYNAMIC`.
                    dim = getattr(torch.export.Dim, "DYNAMIC", None) or torch.export.Dim.AUTO
                    axes = [dict.fromkeys(sizes.get(name, ()), dim) for name in names]
                    options["dynamic_shapes"] = _arrange_by_parameter(self._module, axes)
                export = _export_with_dynamo if exporter.dynamo else _export_older
                make = partial(export, self._module, tuple(arrays), options)
                if exporter.decides is None:
                    return make(), ""
                return call_with_outcome(*exporter.decides, make), ""
            finally:
                for part in trained:
                    part.training = True

    def _export_command(self, options: Mapping[str, Any]) -> str:
        """Return the command that exports the program with options."""
        words = ", ".join(f"{name}={value}" for name, value in options.items())
        code = (
            f"{SAFE_PATH}import torch; p = torch.export.load({json.dumps(self._path)});"
            f' torch.onnx.export(p, f="exported.onnx", {words})'
        )
        return shlex.join(["python", "-c", code])


class OpenedModule(OpenedTorch):
    """A module that `torch.export` does not support, opened by recording its operations on data of
    one shape; implements the port `OpenedProgram`."""

    def __init__(
        self,
        program: Program,
        names: Mapping[str, str | None],
        recording: ModuleRecording,
        notes: Sequence[str],
    ) -> None:
        """Set the recorded module, the names of its inputs, and notes."""
        assert isinstance(program, Module)
        super().__init__(program, names, notes=notes, module=program.model)
        self._recording = recording
        self.nodes = recording.nodes
        self.weights = _Weights(recording.weights)
        calls = ((recording.calls[node.label], node) for node in recording.nodes)
        drawing = (
            _describe_randomness(call.target, call.args, call.kwargs, node) for call, node in calls
        )
        self.unsteady = next(filter(None, drawing), "")

    def open_for(self, feed: Mapping[str, Any]) -> OpenedTorch:
        """Return the module opened for other data of the same shapes,
        for which its operations may differ.
        """
        return OpenedModule(self._program, self._names, self._record_operations(feed), self.notes)

    def _record_operations(self, feed: Mapping[str, Any], keep: Any = None) -> ModuleRecording:
        """Return the recording of the operations on the data."""
        args = self._start_program(feed)
        try:
            with translate_errors("run"), torch.no_grad(), disable_tf32():
                return call_on_device(
                    lambda: record_call(self._module, list(self._names), args, keep), args
                )
        finally:
            self._program.stop()

    def run(
        self, feed: Mapping[str, Any], keep: Callable[[str, Any], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Return the name and value of each output, from the recorded operations."""
        if keep is None:
            return super().run(feed)
        record = keep
        self._record_operations(feed, lambda name, value: record(name, array_from(value)))
        return []

    def _compute_operation(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return the result of a recorded operation on known arrays."""
        return compute_operation(
            self._recording, name, lambda other_name: self._in_float64(other_name, values)
        )

    def condition_of(self, name: str) -> str:
        """Return a phrase for the Python `if` that decides about an operation."""
        origin = self._recording.frames.get(name)
        return "" if origin is None else describe_condition(*origin)

    def exports(self) -> Iterator[tuple[str, str, Callable[[Mapping[str, Any]], Any]]]:
        """Yield options, an empty command and a function of the only other way to export."""
        yield "dynamo=False", "", self._trace_module

    def _trace_module(self, feed: Mapping[str, Any]) -> Any:
        """Return the module traced by the older exporter."""
        args = tuple(self._start_program(feed))
        try:
            with mute_exporters(), disable_fused_attention():
                return _export_older(self._module, args)
        finally:
            self._program.stop()


class _Weights(Mapping[str, Any]):
    """Parameters as arrays, each converted on access."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        """Set the tensors."""
        self._tensors = tensors

    def __getitem__(self, name: str) -> Any:
        """Return a parameter as an array."""
        return array_from(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._tensors)

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self._tensors)


def _arrange_by_parameter(module: Any, values: Sequence[Any]) -> list[Any]:
    """Return one value for each parameter of `forward`.
    A parameter such as ``*caches`` gets all remaining ones."""
    parameters = [*inspect.signature(module.forward).parameters.values()]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return list(values)
    index = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return [*values[:index], tuple(values[index:])]


def _export_quietly(program: Any, options: Mapping[str, Any], _: Mapping[str, Any]) -> Any:
    """Return the exported program without printing anything."""
    if options is _OLDER:
        example_input_ = program.example_inputs[0]
        with mute_exporters():
            return _export_older(torch.jit.trace(program.module(), example_input_), example_input_)
    with mute_exporters():
        quietly = torch.onnx.export(program, verbose=False, **{"dynamo": True, **options})
    return onnx.load_model_from_string(quietly.model_proto.SerializeToString())


def _export_with_dynamo(program: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Return the ONNX model that PyTorch's newer exporter creates from a program."""
    with mute_exporters():
        dynamo = torch.onnx.export(program, args, verbose=False, **options)
    return onnx.load_model_from_string(dynamo.model_proto.SerializeToString())


def _export_older(module: Any, args: tuple[Any, ...], options: Mapping[str, Any] = _OLDER) -> Any:
    """Return the ONNX model that PyTorch's older exporter creates from a module."""
    file = io.BytesIO()
    known = inspect.signature(torch.onnx.export).parameters
    # PyTorch has only this exporter, and no option for it, before 2.5.
    options = {name: options[name] for name in options if name != "dynamo" or name in known}
    torch.onnx.export(module, args, file, **options)
    return onnx.load_model_from_string(file.getvalue())


def _describe_operation(node: Any) -> Node:
    """Return an operation as a node, with its non-tensor arguments as text."""
    schema = getattr(node.target, "_schema", None)
    op = str(schema.name).replace("::", ".") if schema is not None else node.target.__name__
    plain = [argument for argument in node.args if not isinstance(argument, torch.fx.Node)]
    modules = node.meta.get("nn_module_stack") or {}
    scope = next((str(module[0]) for module in reversed(list(modules.values())) if module[0]), "")
    origin = Origin.of(frames_in(node.meta.get("stack_trace") or ""), scope)
    text = ", ".join(map(str, [*plain, *node.kwargs.items()]))
    return Node(
        name=node.name,
        op=op,
        inputs=tuple(all_input_node.name for all_input_node in node.all_input_nodes),
        outputs=(node.name,),
        attributes=(Attribute(ARGUMENTS, "string", text),) if text else (),
        origin=origin,
    )


def _describe_randomness(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], node: Node
) -> str:
    """Return a sentence if an operation generates random numbers or runs in training mode;
    else an empty text."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return ""
    given_values = dict(zip((argument.name for argument in schema.arguments), args))
    given_values = {
        argument.name: given_values.get(
            argument.name, kwargs.get(argument.name, argument.default_value)
        )
        for argument in schema.arguments
    }
    trains = next((given_values[name] for name in _SWITCHES if name in given_values), None)
    share = next((given_values[name] for name in _SHARES if name in given_values), None)
    where = f" ({node.origin})" if node.origin else ""
    name = str(schema.name).replace("::", ".")
    if trains is True and "norm" in name and given_values.get("running_mean") is not None:
        return (
            f"The program was exported in training mode: {name}{where} uses the statistics of"
            " its data. Export it again after model.eval()."
        )
    tags = getattr(target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags or trains is False or share == 0:
        return ""
    eval_said = " Export it again after model.eval()." if share is not None else ""
    return (
        f"The program uses random numbers in {name}{where}, so its results differ in each"
        f" run.{eval_said}"
    )
