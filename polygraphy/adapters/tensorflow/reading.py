"""Describes TensorFlow graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.os.paths import readable_file, translate_os_errors
from polygraphy.adapters.tensorflow.graphs import (
    final_tensors,
    freeze_function,
    freeze_session,
    graph_from_definition,
    input_tensors,
    modify_graph_outputs,
    op_name,
    optimize_graph,
)
from polygraphy.adapters.tensorflow.module import tensorflow_module, translate_errors
from polygraphy.domain.errors import FileError, ModelError, PolygraphyException, UnknownNameError
from polygraphy.domain.model import Attribute, Detail, Graph, ModelSource, Node, Tensor, Weight
from polygraphy.domain.model.description import TensorFlowGraph
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


graph_from_frozen: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class GraphFromFrozen(BaseLoader):
    """Loads a TensorFlow graph from a file with a `GraphDef` (.pb, .graphdef)."""

    def __init__(self, path: str) -> None:
        """Create a loader of the graph in a file."""
        self._path = path

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph and the names of its outputs: the tensors that no operation reads.

        Raises:
            FileError: the file is missing or empty.
            ModelError: it contains no `GraphDef`, or is a folder.
            BackendError: the graph uses an operator that this TensorFlow does not have.
        """
        if Path(self._path).is_dir():
            raise ModelError(
                f"The folder {self._path} contains neither a SavedModel (saved_model.pb) nor a"
                " checkpoint (NAME.index).",
                path=self._path,
            )
        path = readable_file(self._path, "Model")
        definition = tensorflow_module().compat.v1.GraphDef()
        G_LOGGER.progress(f"Loading TensorFlow graph: {path.absolute()}")
        with translate_os_errors(path, "read"):
            content = path.read_bytes()
        with translate_errors("load", path):
            definition.ParseFromString(content)
        if not definition.node:
            raise ModelError(
                f"{path} contains no TensorFlow graph.",
                path=path,
                hint="To load a SavedModel, use its folder, not saved_model.pb.",
            )
        graph = graph_from_definition(definition, path)
        return graph, final_tensors(graph)


graph_from_saved_model: Callable[..., GraphAndOutputs]

_DEFAULT_SIGNATURE = "serving_default"


@mod.export(funcify=True)
class GraphFromSavedModel(BaseLoader):
    """Loads a TensorFlow graph from the folder of a SavedModel, of TensorFlow 1 or 2."""

    def __init__(
        self, path: str, signature: str | None = None, tags: Sequence[str] | None = None
    ) -> None:
        """Create a loader of a signature in a SavedModel folder.

        Args:
            path: the folder that contains ``saved_model.pb``.
            signature: the name of the function to run
                (default: ``serving_default``, or else the only one).
            tags: the tags of the graph to load
                (default: the one for serving, or else the only one).
        """
        self._path = path
        self._signature = signature
        self._tags = tags

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph of one signature with its variables as constants, and the names of its
        outputs, which are those in the signature. The inputs of TensorFlow 1 have their names in
        the graph.

        Raises:
            FileError: the folder does not exist.
            ModelError: it contains no SavedModel, or the SavedModel has no signatures.
            UnknownNameError: the signature does not exist.
        """
        path = _require_saved_model(self._path)
        tf = tensorflow_module()
        G_LOGGER.progress(f"Loading SavedModel: {path.absolute()}")
        with translate_errors("load", path):
            model = tf.saved_model.load(str(path), tags=self._tags and list(self._tags))
        function = self._choose_signature(model, path)
        with translate_errors("load", path):
            return freeze_function(function, _signature_outputs(function))

    def _choose_signature(self, model: Any, path: Path) -> Any:
        """Return the requested signature."""
        signatures = getattr(model, "signatures", {})
        if not signatures:
            raise ModelError(
                f"The SavedModel {path} has no signature, so it cannot be run.",
                path=path,
                hint="Save it with tf.saved_model.save(model, path, signatures=...).",
            )
        only = next(iter(signatures)) if len(signatures) == 1 else _DEFAULT_SIGNATURE
        wanted = only if self._signature is None else self._signature
        if wanted not in signatures:
            raise UnknownNameError(f"In {path}, the signature", wanted, sorted(signatures))
        return signatures[wanted]


def _require_saved_model(name: str) -> Path:
    """Return the path of a SavedModel; raise an error for other paths."""
    path = Path(name)
    if path.name in ("saved_model.pb", "saved_model.pbtxt"):
        path = path.parent
    if not path.is_dir():
        raise FileError(
            f"SavedModel {path} is not a folder." if path.exists() else f"{path} does not exist.",
            path=path,
            hint="Use the folder that contains saved_model.pb.",
        )
    if not any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise ModelError(f"The folder {path} contains no saved_model.pb.", path=path)
    return path


def _signature_outputs(function: Any) -> dict[str, str]:
    """Return the names of the outputs in the signature, by tensor of the function."""
    structured = function.structured_outputs
    if not isinstance(structured, dict):
        return {}
    tensors = function.outputs
    return dict(zip((tensor.name for tensor in tensors), sorted(structured)))


graph_from_ckpt: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class GraphFromCkpt(BaseLoader):
    """Loads a TensorFlow graph from a checkpoint and the ``.meta`` file next to it."""

    def __init__(self, dir: str, name: str | None = None) -> None:
        """Create a loader of a checkpoint folder.

        Args:
            dir: the folder of the checkpoint.
            name: the checkpoint's name, without extension (default: the latest, by the file
                ``checkpoint`` in the folder).
        """
        self._dir = dir
        self._name = name

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph with its variables as constants, and the names of its outputs:
        the tensors that no operation reads.

        Raises:
            FileError: the folder or the checkpoint is missing.
            ModelError: the graph is missing next to the variables, or does not match them.
        """
        prefix = self._prefix()
        v1 = tensorflow_module().compat.v1
        G_LOGGER.progress(f"Loading checkpoint: {prefix.absolute()}")
        graph = tensorflow_module().Graph()
        with (
            graph.as_default(),
            translate_errors("load", prefix),
            v1.Session(graph=graph) as session,
        ):
            saver = v1.train.import_meta_graph(f"{prefix}.meta", clear_devices=True)
            if saver is None:
                raise ModelError(f"{prefix}.meta does not state how its variables were saved.")
            saver.restore(session, str(prefix))
            helpers = saver.as_saver_def()
            ignored = {op_name(helpers.save_tensor_name), op_name(helpers.filename_tensor_name)}
            return freeze_session(session, final_tensors(graph, ignored))

    def _prefix(self) -> Path:
        """Return the path of the checkpoint without extension; raise if its graph is missing."""
        folder = Path(self._dir)
        if not folder.is_dir():
            raise FileError(
                f"The folder {folder} does not exist.",
                path=folder,
                hint="Use the folder of the checkpoint.",
            )
        prefix = folder / (self._name or self._latest(folder))
        if not prefix.with_name(f"{prefix.name}.index").is_file():
            stems = sorted(path.stem for path in folder.glob("*.index"))
            raise UnknownNameError(f"In the folder {folder}, the checkpoint", prefix.name, stems)
        if not prefix.with_name(f"{prefix.name}.meta").is_file():
            raise ModelError(
                f"The checkpoint {prefix} contains variables only: {prefix.name}.meta, which has"
                " the graph, is missing.",
                path=prefix,
                hint="Load the model where it is defined, and save it as a SavedModel.",
            )
        return prefix

    def _latest(self, folder: Path) -> str:
        """Return the name of the latest checkpoint in a folder."""
        latest = tensorflow_module().train.latest_checkpoint(str(folder))
        if latest is None:
            raise FileError(
                f"The folder {folder} has no file 'checkpoint' that names the latest checkpoint.",
                path=folder,
                hint="Set the name of the checkpoint (--ckpt NAME).",
            )
        return Path(latest).name


graph_from_keras: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class GraphFromKeras(BaseLoader):
    """Loads a TensorFlow graph from a Keras model (.keras, .h5, .hdf5)."""

    def __init__(self, path: str) -> None:
        """Create a loader of a Keras model: a file, or the SavedModel folder of older releases."""
        self._path = path

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph of the model's inference with its weights as constants, and the names of
        its outputs: those of the model's inputs, and of its last layers.

        Layers that contain Python code (`Lambda`) are rejected, as in Keras by default.

        Raises:
            FileError: the file is missing or empty.
            ModelError: it is not a Keras model, or this release of Keras cannot load it.
        """
        if Path(self._path).is_dir():
            return GraphFromSavedModel(self._path).call_impl()
        path = readable_file(self._path, "Model")
        tf = tensorflow_module()
        G_LOGGER.progress(f"Loading Keras model: {path.absolute()}")
        if path.suffix == ".keras" and not is_zipfile(path):
            raise ModelError(f"{path} is not a complete Keras file (a zip archive).", path=path)
        with _name_version_in_errors(path), translate_errors("load", path):
            model = tf.keras.models.load_model(str(path), compile=False)
        if not getattr(model, "inputs", None):
            raise ModelError(
                f"The Keras model in {path} does not declare its inputs.",
                path=path,
                hint="Build it with keras.Input, or call it once, before saving it.",
            )
        with translate_errors("load", path):
            return _graph(model)


@contextmanager
def _name_version_in_errors(path: Path) -> Iterator[None]:
    """Add the Keras version that wrote the file to errors, if it differs from the installed one."""
    try:
        yield
    except PolygraphyException as error:
        written, version = _version_of(path), tensorflow_module().keras.__version__
        if written is not None and written != version:
            error.hint = f"It was saved by Keras {written}, and this is Keras {version}."
        raise


def _version_of(path: Path) -> str | None:
    """Return the Keras version that wrote a file; None if the file does not contain it."""
    try:
        if is_zipfile(path):
            with ZipFile(path) as archive:
                return str(json.loads(archive.read("metadata.json"))["keras_version"])
        import h5py

        with h5py.File(path) as file:
            return str(file.attrs["keras_version"])
    except (BadZipFile, KeyError, OSError, TypeError, ValueError):
        return None


def _graph(model: Any) -> GraphAndOutputs:
    """Return the graph of the inference of a Keras model, and the names of its outputs."""
    tf = tensorflow_module()
    inputs, outputs = tf.nest.flatten(model.inputs), tf.nest.flatten(model.outputs)

    def infer(*tensors: Any) -> list[Any]:
        """Return the outputs of the model as a flat list."""
        fed = tensors[0] if len(tensors) == 1 else list(tensors)
        return list(tf.nest.flatten(model(fed, training=False)))

    signature = [tf.TensorSpec(item.shape, item.dtype, name=item.name) for item in inputs]
    function = tf.function(infer, input_signature=signature).get_concrete_function()
    names = _output_names(model, len(outputs))
    return freeze_function(function, {t.name: name for t, name in zip(function.outputs, names)})


def _output_names(model: Any, count: int) -> list[str]:
    """Return the names of the layers that compute the outputs, or ``output``, ``output_1``, ..."""
    names = getattr(model, "output_names", None)
    if not names:
        names = [layer.name for layer in model.layers[-1:]]
    unique = dict.fromkeys(names)
    if len(unique) != count:
        return ["output", *(f"output_{index}" for index in range(1, count))]
    return list(unique)


_LOADERS: dict[str, Callable[[ModelSource], GraphAndOutputs]] = {
    "frozen": lambda source: GraphFromFrozen(source.path)(),
    "keras": lambda source: GraphFromKeras(source.path)(),
    "saved-model": lambda source: GraphFromSavedModel(source.path)(),
    "ckpt": lambda source: GraphFromCkpt(source.path, source.checkpoint)(),
}
_NO_LAYERS = ("Const", "Placeholder")


def describe_file(source: ModelSource, detail: Detail) -> TensorFlowGraph:
    """Return a description of the graph of a model file.

    Raises:
        FileError: the file or folder is missing.
        ModelError: it is not a model of its type.
        UnknownNameError: it has no such checkpoint or tensor.
    """
    graph, outputs = _LOADERS[source.kind](source)
    if source.outputs:
        wanted = constants.MARK_ALL if "*" in source.outputs else source.outputs
        graph, outputs = modify_graph_outputs((graph, outputs), wanted)
    if source.optimizes:
        graph, outputs = optimize_graph((graph, outputs))
    described = describe_graph(graph, outputs, Path(source.path).name, detail)
    return TensorFlowGraph(path=source.path, kind=source.kind, graph=described)


def describe_graph(graph: Any, outputs: Iterable[str], name: str, detail: Detail) -> Graph:
    """Return a description of a `tensorflow.Graph`, given the names of its outputs."""
    operations = graph.get_operations()
    nodes = [op for op in operations if op.type not in _NO_LAYERS]
    return Graph(
        name=name,
        inputs=tuple(map(_tensor, input_tensors(graph))),
        outputs=tuple(_tensor(graph.get_tensor_by_name(output)) for output in outputs),
        weights=tuple(_weight(op, detail) for op in operations if op.type == "Const"),
        node_count=len(nodes),
        nodes=tuple(_node(op, detail) for op in nodes) if detail.layers else (),
        tensors={
            tensor.name: _tensor(tensor)
            for op in operations
            if detail.layers and op.type != "Const"
            for tensor in op.outputs
        },
    )


def _tensor(tensor: Any) -> Tensor:
    """Return a description of a tensor."""
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return Tensor(tensor.name, tensor.dtype.name, shape)


def _weight(op: Any, detail: Detail) -> Weight:
    """Return a description of a Const operation as a weight, with its values if requested."""
    tensor = op.outputs[0]
    shape = tuple(tensor.shape.as_list())
    count = tensor.shape.num_elements()
    size = 0 if tensor.dtype.name == "string" else tensor.dtype.size * count
    values = tensorflow_module().make_ndarray(op.get_attr("value")) if detail.weights else None
    return Weight(tensor.name, tensor.dtype.name, shape, int(size), values=values)


def _node(op: Any, detail: Detail) -> Node:
    """Return a description of an operation."""
    return Node(
        name=op.name,
        op=op.type,
        inputs=tuple(tensor.name for tensor in op.inputs),
        outputs=tuple(tensor.name for tensor in op.outputs),
        attributes=tuple(_attributes(op)) if detail.attrs else (),
    )


def _attributes(op: Any) -> Iterator[Attribute]:
    """Yield the attributes, without TensorFlow's internal ones, which begin with ``_``."""
    for name, value in sorted(op.node_def.attr.items()):
        if not name.startswith("_"):
            kind = value.WhichOneof("value")
            if kind == "list":
                field = next((field for field, field_value in value.list.ListFields()), None)
                items = getattr(value.list, field.name) if field is not None else ()
                parts = tuple(_attribute(field.name, item)[1] for item in items) if field else ()
                yield Attribute(name, "strings" if _are_texts(parts) else "ints", parts)
            elif kind is not None:
                yield Attribute(name, *_attribute(kind, getattr(value, kind)))


def _are_texts(values: tuple[Any, ...]) -> bool:
    """Return whether a list contains a string."""
    return any(isinstance(value, str) for value in values)


def _attribute(kind: str, value: Any) -> tuple[str, Any]:
    """Return the kind and value of an attribute in the descriptions of this package."""
    tf = tensorflow_module()
    if kind == "type":
        return "dtype", tf.as_dtype(value).name
    if kind == "shape":
        shape = tf.TensorShape(value)
        return "string" if shape.rank is None else "ints", (
            "unknown" if shape.rank is None else tuple(-1 if d is None else d for d in shape)
        )
    if kind == "s":
        return "string", value.decode("utf-8", "backslashreplace")
    if kind in ("i", "b"):
        return "int", int(value)
    if kind == "f":
        return "float", float(value)
    if kind == "func":
        return "string", value.name
    return "string", str(value).strip()
