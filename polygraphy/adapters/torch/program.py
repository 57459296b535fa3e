"""Uniform access to all kinds of PyTorch programs, for the runner."""

from __future__ import annotations

import ast
import inspect
import io
import logging
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, InvokeFromScript, evaluate
from polygraphy.adapters.os.paths import readable_file
from polygraphy.adapters.torch.caches import load_with_types, unregistered_types
from polygraphy.adapters.torch.exported_files import load_exported
from polygraphy.domain.errors import (
    BackendError,
    InputError,
    ModelError,
    PolygraphyException,
    UsageError,
)
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import with_article
from polygraphy.logger import G_LOGGER
from polygraphy.mod.scripts import user_frame

_OF_TYPES = ("must have the same dtype", "should be the same", "expected scalar type")
"""Parts of messages that PyTorch writes if operands have different data types."""


@contextmanager
def translate_errors(doing: str, model: object = "") -> Iterator[None]:
    """Convert any exception inside the block to an error of this package with the line of the
    model.

    Args:
        doing: the operation: ``load``, ``compile``, ``run``.
        model: the file, if there is one.

    Raises:
        ModelError: a file is not a valid model.
        InputError: the model does not accept these inputs.
        BackendError: any other failure.
    """
    try:
        yield
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        kind = type(error).__name__
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Some messages start with a heading that ends with a colon, so also use their second line.
        text = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])[:_LONGEST]
        frame = user_frame(error)
        name = f"{kind}: {text.rstrip('.')}{frame}." if text else f"{kind}{frame}."
        if doing == "load" and model:  # Else a function of the user failed.
            raise ModelError(
                f"PyTorch cannot load {model}: {name}",
                path=model,
                hint="Use a file from torch.export.save (.pt2) or torch.jit.save (.pt).",
            ) from error
        if doing == "run" and isinstance(error, TypeError):
            raise InputError(f"The PyTorch model rejected the inputs: {name}") from error
        raise BackendError(
            f"PyTorch could not {doing} the model: {name}",
            backend="torch",
            hint=_failure_hint(kind, text),
        ) from error


def _failure_hint(kind: str, message: str) -> str:
    """Return the advice for a failure of PyTorch; empty if there is none."""
    if kind == "OutOfMemoryError":
        return "Out of memory: use a smaller batch."
    if any(part in message for part in _OF_TYPES):
        return (
            "The weights have another data type than the inputs. In the function that returns the"
            " module, convert it to their type, for example with .float() or .double()."
        )
    return ""


@contextmanager
def mute_exporters() -> Iterator[None]:
    """Silence PyTorch's exporters inside the block."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def disable_fused_attention() -> Iterator[None]:
    """Make transformer layers of PyTorch run their single operations inside the block.

    Without gradients these layers call one fused operator in evaluation mode, which the older
    exporter cannot translate.
    """
    attention = getattr(torch.backends, "mha", None)
    if attention is None:
        yield
        return
    before = attention.get_fastpath_enabled()
    attention.set_fastpath_enabled(False)
    try:
        yield
    finally:
        attention.set_fastpath_enabled(before)


triton = mod.lazy_import("triton", log=False)


def check_compiler() -> None:
    """Raise UnavailableError if loading PyTorch's compiler would end the process.

    Triton and TensorFlow each contain an LLVM, and that of Triton aborts if it is loaded second.
    The reverse order works.

    Raises:
        BackendError: TensorFlow is loaded, and Triton is not.
    """
    if "tensorflow" in sys.modules and "triton" not in sys.modules and triton.is_installed():
        raise BackendError(
            "PyTorch cannot load its compiler after TensorFlow in the same process.",
            backend="torch",
            hint="Put PyTorch first (--torch before --tf), or run each runner in its own process"
            " (--use-subprocess).",
        )


torch = mod.lazy_import("torch>=2.2")
Result = TypeVar("Result")
_LONGEST = 300
_RELEASE = re.compile(rb'"torch_version": *"([^"]+)"')
"""The PyTorch release that saved a program, as the file states it."""
_WRITES = re.compile(r"^__(set|i(?!nvert|ndex))|[^_]_$")
"""Names of operations that change their first tensor, such as ``add_`` and ``__setitem__``."""
Keep = Callable[[str, Any], None]


class ExportedModule:
    """Runs a `torch.export.ExportedProgram`.

    Tensors have the names in the program's graph, as in the ONNX model from `torch.onnx.export`.
    """

    def __init__(self, program: Any) -> None:
        """Set the exported program."""
        self.exported = self._program = program
        self._module: Any = None
        self._call: Any = None

    def inputs(self) -> TensorMetadata | None:
        """Return the metadata of the inputs, with names for dynamic dimensions; None if unknown."""
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

    def accept(self, names: Collection[str]) -> None:
        """Do nothing: a program has no optional inputs."""

    def unread_inputs(self) -> set[str]:
        """Return the inputs that no operation reads, which exporters may omit."""
        names = set(self._program.graph_signature.user_inputs)
        return {
            node.name for node in self._program.graph.nodes if node.name in names and not node.users
        }

    def start(self, device: str | None, compiled: bool) -> Any:
        """Return a module of the program, on a device if one is given."""
        check_compiler()
        if device is not None:
            self.move(device)
        program = self._program
        self._module = self._call = program.module()
        if compiled:
            with translate_errors("compile"):
                self._call = torch.compile(self._module)
        value = next(iter([*program.state_dict.values(), *constants_of(program).values()]), None)
        own_device = getattr(value, "device", None)
        return torch.device(own_device or device or "cpu")

    def move(self, device: Any) -> None:
        """Move the program to a device."""
        from torch.export.passes import move_to_device_pass

        self._program = move_to_device_pass(self._program, device)

    def run(self, tensors: Sequence[Any]) -> Any:
        """Return what the program returns; its arguments are arranged as at export."""
        args, kwargs = self._arrange_inputs(tensors)
        return self._call(*args, **kwargs)

    def _arrange_inputs(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        """Return tensors as positional and keyword arguments of the program."""
        # A private module, but the description of arguments has no public name.
        from torch.utils import _pytree as pytree

        given_tensors = iter(tensors)
        described = self.inputs() or TensorMetadata()
        leaves = [
            next(given_tensors) if name in described else name
            for name in self._program.graph_signature.user_inputs
        ]
        arranged = pytree.tree_unflatten(leaves, self._program.call_spec.in_spec)
        return arranged[0], arranged[1]

    def run_all(self, tensors: Sequence[Any], keep: Keep | None = None) -> Mapping[str, Any]:
        """Return every tensor that the program computes, by running it node by node."""
        computed: dict[str, Any] = {}
        record = keep or computed.__setitem__

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc, name-defined]
            """Records the result of each operation."""

            def run_node(self, node: Any) -> Any:
                """Return the result of a node, and record a copy of it."""
                result = super().run_node(node)
                if node.op == "call_function" and isinstance(result, torch.Tensor):
                    record(node.name, result.clone())  # A later operation may overwrite it.
                return result

        args, kwargs = self._arrange_inputs(tensors)
        leaves = [*args, *kwargs.values()]
        Recorder(self._module).run(*leaves)
        return computed

    def without_writes(self) -> ExportedModule:
        """Return the program without operations that change a tensor in place,
        so that each tensor keeps the value with which it is returned or read."""
        calls = [node for node in self._program.graph.nodes if node.op == "call_function"]
        schemas = [getattr(call.target, "_schema", None) for call in calls]
        if not any(schema is not None and schema.is_mutable for schema in schemas):
            return self
        try:
            with mute_exporters(), torch.no_grad():
                return ExportedModule(self._program.run_decompositions({}))
        except Exception as error:  # The decomposition can raise anything.
            G_LOGGER.verbose(f"In-place operations of the program remain: {error}")
            return self

    def stop(self) -> None:
        """Release the module."""
        self._module = self._call = None


def constants_of(program: Any) -> Mapping[str, Any]:
    """Return the constants of a `torch.export.ExportedProgram` by name."""
    name = "constants" if hasattr(program, "constants") else "tensor_constants"  # Before 2.3.
    constants: Mapping[str, Any] = getattr(program, name)
    return constants


class Module:
    """Runs a `torch.nn.Module` or a `torch.jit.ScriptModule`."""

    def __init__(self, model: Any) -> None:
        """Set the module."""
        self.model = model
        self._call: Any = None
        self._in_training: list[Any] = []
        self._exported: dict[Any, ExportedModule] = {}
        self._optional: list[str] = []

    def inputs(self) -> TensorMetadata | None:
        """Return the metadata of the required parameters of `forward` and of the accepted optional
        ones, of any data type and shape; None if their number is open.
        """
        parameters = self._parameters()
        if parameters is None:
            return None
        metadata = TensorMetadata()
        for name in (*(name for name, is_required in parameters if is_required), *self._optional):
            metadata.add(name, None, None)
        return metadata

    def accept(self, names: Collection[str]) -> None:
        """Make the optional parameters of `forward` with these names inputs,
        such as states that are None in the first step.
        """
        parameters = self._parameters() or []
        self._optional = [
            name for name, is_required in parameters if name in names and not is_required
        ]

    def _parameters(self) -> list[tuple[str, bool]] | None:
        """Return the name of each input, and whether it is required, or None.
        The result is None if the signature is not known.
        """
        if isinstance(self.model, torch.jit.ScriptModule):
            arguments = self.model.forward.schema.arguments[1:]
            return [(argument.name, not argument.has_default_value()) for argument in arguments]
        parameters = inspect.signature(self.model.forward).parameters.values()
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return None
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [
            (parameter.name, parameter.default is parameter.empty)
            for parameter in parameters
            if parameter.kind in kinds
        ]

    def _widen(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Return tensors in the data type of the weights, if that represents them exactly: a model
        in half precision has other inputs than its program."""
        held = chain(self.model.parameters(), self.model.buffers())
        kinds = {tensor.dtype for tensor in held if tensor.is_floating_point()}
        if len(kinds) != 1:
            return tensors
        [kind] = kinds
        return [
            (
                tensor.to(kind)
                if tensor.is_floating_point() and tensor.dtype.itemsize < kind.itemsize
                else tensor
            )
            for tensor in tensors
        ]

    def _arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return tensors as positional and keyword arguments of `forward`."""
        required = len(tensors) - len(self._optional)
        return tuple(tensors[:required]), dict(zip(self._optional, tensors[required:]))

    def output_names(self) -> Sequence[str] | None:
        """Return None, because the outputs of a module have no names."""
        return None

    def start(self, device: str | None, compiled: bool) -> Any:
        """Move the model to a device, switch it to inference, and return it."""
        if compiled:
            check_compiler()
        if device is not None:
            self.move(device)
        self._in_training = [part for part in self.model.modules() if part.training]
        self.model.eval()
        self._call = self.model
        if compiled:
            with translate_errors("compile"):
                self._call = torch.compile(self.model)
        tensors = chain(self.model.parameters(), self.model.buffers())
        own_device = next((tensor.device for tensor in tensors), device or "cpu")
        return torch.device(own_device)

    def move(self, device: Any) -> None:
        """Move the model to a device."""
        self.model.to(device)

    def run(self, tensors: Sequence[Any]) -> Any:
        """Return what the module returns for tensors: a tensor, or tensors in a structure."""
        tensors = self._widen(tensors)
        args, named = self._arguments(tensors)
        return call_on_device(lambda: self._call(*args, **named), tensors)

    def run_all(self, tensors: Sequence[Any], keep: Keep | None = None) -> Mapping[str, Any]:
        """Return every tensor of the program that `torch.export` creates from the module for data
        of these shapes."""
        tensors = self._widen(tensors)
        program = self.export(tensors)
        program.start(None, compiled=False)
        return program.run_all(tensors, keep)

    def export(self, tensors: Sequence[Any]) -> ExportedModule:
        """Return the program that `torch.export` creates from the module,
        once for data of one shape.

        Raises:
            UsageError: `torch.export` fails, so that the inner tensors are unknown.
        """
        tensors = self._widen(tensors)
        args, named = self._arguments(tensors)
        key = (*named, *(tuple(tensor.shape) for tensor in tensors))
        if key not in self._exported:
            if isinstance(self.model, torch.jit.ScriptModule):
                raise UsageError(
                    "Tensors inside TorchScript have no names, so they cannot be outputs.",
                    hint="Export the module with torch.export.export.",
                )
            try:
                with mute_exporters():
                    result = call_on_device(
                        lambda: torch.export.export(self.model, args, named, strict=False),
                        tensors,
                    )
            # The code of the module, or the exporter, can raise anything.
            except Exception as error:
                line = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise UsageError(
                    "torch.export does not support the module, so the tensors inside it have no"
                    f" names: {line[:200]}"
                ) from error
            self._exported[key] = ExportedModule(result)
        return self._exported[key]

    def stop(self) -> None:
        """Restore training mode in the parts of the model that were in it."""
        for part in self._in_training:
            part.training = True
        self._call = None


def call_on_device(call: Callable[[], Result], tensors: Sequence[Any]) -> Result:
    """Return the result of a call; if it fails because tensors are on several devices, call again
    with all of them on the device of the inputs.

    Args:
        call: runs a module.
        tensors: the inputs.

    Raises:
        RuntimeError: the second call fails too.
    """
    try:
        return call()
    except RuntimeError as error:
        devices = (tensor.device for tensor in tensors if isinstance(tensor, torch.Tensor))
        device = next((device for device in devices if device.type != "cpu"), None)
        if device is None or "device" not in str(error):
            raise
    with _move_to(device), device:
        return call()


def _move_to(device: Any) -> Any:
    """Return a PyTorch mode that repeats an operation that fails on several devices with all its
    tensors on one device.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils import _pytree as pytree

    def move(value: Any) -> Any:
        """Return a tensor on the device; other values unchanged."""
        return value.to(device) if isinstance(value, torch.Tensor) else value

    class Mover(TorchFunctionMode):  # type: ignore[misc]
        """Moves the tensors of operations that fail on several devices."""

        def __torch_function__(
            self, function: Any, _: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            """Return the result of an operation."""
            options = kwargs or {}
            try:
                return function(*args, **options)
            except RuntimeError:
                leaves = pytree.tree_leaves((args, options))
                if len({leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)}) < 2:
                    raise
            moved, moved_options = pytree.tree_map(move, (args, options))
            # The tensor that an operation writes to must remain the same object.
            if _WRITES.search(getattr(function, "__name__", "")):
                moved = (*args[:1], *moved[1:])
            if "out" in options:
                moved_options["out"] = options["out"]
            return function(*moved, **moved_options)

    return Mover()


def release_cached_memory(device: Any) -> None:
    """Return GPU memory that PyTorch caches for later tensors to the driver."""
    if device is not None and torch.device(device).type == "cuda":
        torch.cuda.empty_cache()


Program = Union[ExportedModule, Module]
"""A model that can be run."""


def is_model(value: Any) -> bool:
    """Return whether a value is a PyTorch model, and not a function that loads one."""
    return isinstance(value, (torch.nn.Module, torch.export.ExportedProgram))


def get_model(loader: Any) -> Any:
    """Return a model, or the model from a loader. A script may also contain the model itself.

    Raises:
        UsageError: a script names a class of modules, whose weights would be random.
        BackendError: the loader raised an exception.
    """
    # Check the path and name first, because importing PyTorch takes seconds.
    if not isinstance(loader, BaseLoader) and is_model(loader):
        return loader
    with translate_errors("load"):
        if isinstance(loader, InvokeFromScript):
            _reject_class(loader)
            target = loader.symbol()
            if is_model(target):
                if loader.script.endswith(f":{type(target).__name__}"):
                    raise UsageError(_class_hint(loader))
                return target
        return evaluate(loader)


def _reject_class(loader: InvokeFromScript) -> None:
    """Raise UsageError if the text of the script shows that the name is a subclass of a class
    `Module`."""
    path, _, name = loader.script.rpartition(":")
    bases = [
        ast.unparse(base)
        for statement in _script_statements(path)
        if isinstance(statement, ast.ClassDef) and statement.name == name
        for base in statement.bases
    ]
    if any(base.rpartition(".")[2] == "Module" for base in bases):
        raise UsageError(_class_hint(loader))


def _script_statements(path: str) -> list[ast.stmt]:
    """Return the statements of a script.
    The result is empty if it cannot be parsed, which running it reports better."""
    try:
        return ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _class_hint(loader: InvokeFromScript) -> str:
    """Return the hint to name a function that returns the model instead of its class."""
    functions = [
        statement.name
        for statement in _script_statements(loader.script.rpartition(":")[0])
        if isinstance(statement, ast.FunctionDef) and statement.name[0] != "_"
    ]
    text = f" Functions there: {', '.join(functions)}." if functions else ""
    return (
        f"{loader.script} is a class: its weights are random. Name a function that returns the"
        f" trained module.{text}"
    )


def program_of(model: Any) -> Program:
    """Return a model as a program that can be run; raise UsageError if it is not a model."""
    if isinstance(model, torch.export.ExportedProgram):
        return ExportedModule(model)
    if isinstance(model, torch.nn.Module):  # TorchScript modules are instances as well.
        return Module(model)
    raise UsageError(
        "A PyTorch model must be a torch.nn.Module, TorchScript or a"
        f" torch.export.ExportedProgram, not {with_article(type(model).__name__)}.",
        hint="For a model of another library, save its inputs and outputs as .npz, and pass them"
        " with --load-inputs and --golden (run: --load-outputs).",
    )


torch_from_path: Callable[..., Any]


@mod.export(funcify=True)
class TorchFromPath(BaseLoader):
    """Loads a program from `torch.export.save` (.pt2) or a module from `torch.jit.save` (.pt).

    Files of `torch.save`, and programs with pickled objects in their weights, constants or example
    inputs, are rejected, because such objects can run code when they are loaded.
    """

    def __init__(self, path: str) -> None:
        """Create a loader of the program or model in a file."""
        self.path = self._path = path

    def call_impl(self) -> Any:
        """Return the `torch.export.ExportedProgram`, or the `torch.jit.ScriptModule`.

        Raises:
            FileError: the file is missing or empty.
            ModelError: it is neither a program nor a module.
        """
        path = readable_file(self._path, "Model")
        G_LOGGER.progress(f"Loading PyTorch model: {path.absolute()}")
        # If PyTorch is not installed, this line raises the error, for any kind of file.
        load_script = torch.jit.load
        kind = _archive_kind(path)
        with translate_errors("load", path):
            if kind == "script":
                return load_script(str(path), map_location="cpu")
            check_compiler()
            try:
                # PyTorch warns about archives from older releases, which it can read.
                with mute_exporters():
                    return load_exported(path)
            except Exception as error:
                if types := unregistered_types(path):
                    return load_with_types(path, types)
                release = _newer_release(path)
                if release is None or isinstance(error, ModelError):
                    raise
                raise ModelError(
                    f"{path} was saved by PyTorch {release}, and {torch.__version__} cannot read"
                    " it.",
                    path=path,
                    hint="Save it with the installed release, or update PyTorch: pip install -U"
                    " torch.",
                ) from error


def _archive_kind(path: Path) -> str:
    """Return the kind of an archive, from the names in it: an exported program or TorchScript."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        names = []
    if any("/code/" in name for name in names):
        return "script"
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        return "exported"
    if path.suffix == ".safetensors" or _is_state(path):
        raise ModelError(
            f"{path} is a PyTorch checkpoint: it contains weights, but no program.",
            path=path,
            hint="Use a script whose function creates the module and calls load_state_dict (--torch"
            " script.py:function), or a file from torch.export.save.",
        )
    raise ModelError(
        f"{path} contains neither an exported PyTorch program nor TorchScript.",
        path=path,
        hint="Save it with torch.export.save, or load it in a script (--torch script.py:function).",
    )


def _is_state(path: Path) -> bool:
    """Return whether a file from `torch.save` contains only a dictionary of tensors, numbers and
    strings.
    """
    with path.open("rb") as file:
        if not file.read(2).startswith(
            (b"PK", b"\x80")
        ):  # Files of PyTorch: zip archives, and pickles of old releases.
            return False
    try:
        loaded = torch.load(str(path), weights_only=True, map_location="meta")
    except Exception:  # pickle, zipfile and torch raise their own errors.
        return False
    return isinstance(loaded, dict) and bool(loaded)


def _newer_release(path: Path) -> str | None:
    """Return the release of PyTorch that saved a program, if that is newer than this one;
    else None.
    """
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            match = _RELEASE.search(archive.read(name)) if name.endswith(".json") else None
            if match and mod.version(match[1].decode()) > mod.version(torch.__version__):
                return match[1].decode()
    return None
