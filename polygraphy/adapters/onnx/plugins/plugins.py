"""Replaces parts of ONNX models with plugins that can compute them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.graph import (
    clean_model,
    names_in_use,
    producers,
    sort,
    unique_name,
)
from polygraphy.adapters.onnx.graph.graphsurgeon import import_graph
from polygraphy.adapters.onnx.storage.weights import all_tensors, load_stored
from polygraphy.adapters.onnx_common.messages import weight_names
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    PolygraphyException,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch
from polygraphy.domain.tensors.naming import with_article
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


_SCRIPT = "pattern.py"
_NUMBERS = (bool, int, float, str)


@frozen
class Plugin:
    """A plugin that a script defines.

    Attributes:
        folder: the name of its folder, which options refer to.
        path: its script.
        names: the objects that the script defines, by name.
    """

    folder: str
    path: Path
    names: Mapping[str, Any]

    def match(self, graph: Any) -> PluginMatch:
        """Return the parts of an onnx-graphsurgeon graph that the plugin can replace.

        Raises:
            BackendError: the script fails, or returns something else.
        """
        name, op = self.identity()
        subgraphs = self._call("get_matching_subgraphs", graph)
        try:
            return PluginMatch(
                name=name,
                op=op,
                instances=tuple(
                    PluginInstance(
                        inputs=tuple(map(str, array["inputs"])),
                        outputs=tuple(map(str, array["outputs"])),
                        attributes={
                            name: _plain_attribute(value)
                            for name, value in array["attributes"].items()
                        },
                    )
                    for array in subgraphs or ()
                ),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise BackendError(
                f"{self.path}: get_matching_subgraphs must return a list of dictionaries with"
                f" inputs, outputs and attributes. ({type(error).__name__}: {error})"
            ) from error

    def identity(self) -> tuple[str, str]:
        """Return the name that the plugin reports, and the type of its operator.

        Raises:
            BackendError: the script fails, or reports neither.
        """
        metadata = self._call("get_plugin_metadata")
        try:
            return str(metadata["name"]), str(metadata["op"])
        except (KeyError, TypeError) as error:
            raise BackendError(
                f"{self.path}: get_plugin_metadata must return a dictionary with name and op."
                f" ({type(error).__name__}: {error})"
            ) from error

    @property
    def replaces(self) -> bool:
        """Return whether the script changes graphs itself."""
        return "replace_with_plugin" in self.names

    def replace(self, graph: Any, op: str, instance: PluginInstance) -> bool:
        """Call the script to change an onnx-graphsurgeon graph, and return whether it did.

        Raises:
            UnknownNameError: the graph has no tensor of a name.
            BackendError: the script fails.
        """
        tensors = graph.tensors()
        for name in (*instance.inputs, *instance.outputs):
            if name not in tensors:
                raise UnknownNameError("Tensor", name, sorted(tensors))
        inputs = [tensors[name] for name in instance.inputs]
        outputs = [tensors[name] for name in instance.outputs]
        attributes = dict(instance.attributes)
        return bool(self._call("replace_with_plugin", graph, inputs, outputs, attributes, op))

    def _call(self, function: str, *arguments: Any) -> Any:
        """Return the result of a function of the script; raise BackendError if it fails."""
        if function not in self.names:
            raise UnknownNameError(f"In {self.path}, the function", function, ())
        called: Callable[..., Any] = self.names[function]
        try:
            return called(*arguments)
        except PolygraphyException:
            raise
        except Exception as error:  # A user's script can raise anything.
            raise BackendError(
                f"{self.path}: {function} failed: {type(error).__name__}: {error}"
            ) from error


def plugins_in(
    folder: str, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> list[Plugin]:
    """Return the plugins of a folder, by name; each script is run once.

    Args:
        folder: the folder.
        include: names of the folders of the plugins to load (default: all).
        exclude: names of the folders of the plugins to skip.

    Raises:
        FileError: there is no such folder, or no plugin in it.
        UnknownNameError: there is no plugin with a name.
        PolygraphyException: a script cannot be run.
    """
    scripts = {path.parent.name: path for path in sorted(Path(folder).glob(f"*/{_SCRIPT}"))}
    if not scripts:
        raise FileError(
            f"{folder} contains no plugins.",
            path=folder,
            hint=f"Each plugin is a subfolder with a script {_SCRIPT}.",
        )
    for name in (*(include or ()), *(exclude or ())):
        if name not in scripts:
            raise UnknownNameError("Plugin", name, list(scripts))
    return [
        Plugin(name, path, mod.import_from_script(path, "__dict__"))
        for name, path in scripts.items()
        if (include is None or name in include) and name not in (exclude or ())
    ]


def _plain_attribute(value: Any) -> Any:
    """Return an attribute as numbers, strings and lists of these.
    Raise TypeError for other values."""
    if isinstance(value, _NUMBERS):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain_attribute(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and numbers.
        return _plain_attribute(value.tolist())
    raise TypeError(f"an attribute cannot be {with_article(type(value).__name__)}")


replace_plugins: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")
gs = mod.lazy_import("onnx_graphsurgeon>=0.5")
gs_logger = mod.lazy_import("onnx_graphsurgeon.logger")


def match_plugins(
    model: Deferred[ModelProto],
    plugin_dir: str,
    include: Collection[str] | None = None,
    exclude: Collection[str] | None = None,
) -> list[PluginMatch]:
    """Return the parts of an ONNX model that the plugins in a folder can replace.

    The model is imported into onnx-graphsurgeon once, for all plugins. Weights in files stay there,
    unless a script reads them.

    Args:
        model: the model, or a loader that returns it.
        plugin_dir: a folder with a folder per plugin, each of which has a script ``pattern.py``.
        include: names of the folders of the plugins to try (default: all).
        exclude: names of the folders of the plugins to skip.

    Returns:
        The plugins that match, in the order of their folders' names.

    Raises:
        FileError: there is no such folder, or no plugin in it.
        UnknownNameError: there is no plugin with a name.
        BackendError: a script fails.
        UsageError: both `include` and `exclude` are set.
    """
    if include is not None and exclude is not None:
        raise UsageError("include and exclude cannot be combined.", hint="Pass only one of them.")
    plugins = plugins_in(plugin_dir, include, exclude)
    with _mute_matching():
        graph = import_graph(evaluate(model))
        matches = [plugin.match(graph) for plugin in plugins]
    matches = [match for match in matches if match.instances]
    counts = {match.name: len(match.instances) for match in matches}
    G_LOGGER.info(f"the following plugins matched:\n{counts}" if counts else "No plugin matched.")
    return matches


@mod.export(funcify=True)
class ReplacePlugins(BaseLoader):
    """Replaces parts of an ONNX model with plugins."""

    def __init__(
        self, model: Deferred[ModelProto], plugin_dir: str, matches: Sequence[PluginMatch]
    ) -> None:
        """Set the model, the plugins, and the parts to replace.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            plugin_dir: the folder of the plugins.
            matches: the parts that they replace.
        """
        self._model = model
        self._plugin_dir = plugin_dir
        self._matches = list(matches)

    def call_impl(self) -> ModelProto:
        """Return the model with plugin nodes in place of the parts they replace.

        Raises:
            UnknownNameError: the model lacks a tensor, or the folder lacks a plugin.
            UsageError: a plugin would replace an input of the model or a weight.
            ModelError: a plugin would depend on its own output.
            BackendError: a script fails.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Replace parts of a model by plugin nodes, and return it."""
        plugins = self._plugins()
        parts = _PartReplacer(model.graph)
        for match in self._matches:
            plugin = plugins[match.name]
            for instance in match.instances:
                if plugin.replaces:
                    _replace_by_script(model, plugin, match.op, instance)
                else:
                    parts.replace(match.op, instance)
            if plugin.replaces:
                parts = _PartReplacer(model.graph)
        sort(model.graph)
        clean_model(model)
        self._report(model.graph)
        return model

    def _plugins(self) -> dict[str, Plugin]:
        """Return the plugins in the folder, by the names that they report."""
        plugins = plugins_in(self._plugin_dir) if self._matches else []
        plugin_by_id = {plugin.identity()[0]: plugin for plugin in plugins}
        for match in self._matches:
            if match.name not in plugin_by_id:
                raise UnknownNameError("Plugin", match.name, sorted(plugin_by_id))
        return plugin_by_id

    def _report(self, graph: GraphProto) -> None:
        """Log the number of parts that were replaced."""
        for match in self._matches:
            wanted = len(match.instances)
            remaining_count = sum(node.op_type == match.op for node in graph.node)
            if remaining_count < wanted:
                G_LOGGER.warning(
                    f"Plugin {match.name}: replaced {remaining_count} of {wanted} parts with"
                    f" {match.op} nodes. The others overlap, or no output depends on them."
                )
            else:
                G_LOGGER.info(
                    f"Plugin {match.name}: replaced {wanted} parts with {match.op} nodes."
                )


class _PartReplacer:
    """Replaces parts of a graph with plugin nodes, one after another."""

    def __init__(self, graph: GraphProto) -> None:
        """Index a graph."""
        self._graph = graph
        self._made_by = producers(graph)
        self._given = {value.name for value in graph.input} | weight_names(graph)
        self._taken = names_in_use(graph)

    def replace(self, op: str, instance: PluginInstance) -> None:
        """Add a plugin node that computes the outputs of a part.
        The nodes of the part lose their readers.
        """
        graph = self._graph
        for name in (*instance.inputs, *instance.outputs):
            if name and name not in self._made_by and name not in self._given:
                raise UnknownNameError("Tensor", name, sorted(self._given | self._made_by.keys()))
        for name in instance.outputs:
            if name in self._given:
                raise UsageError(
                    f"Tensor {name!r} is an input or a weight of the model, so a node cannot"
                    " compute it."
                )
            outputs = graph.node[self._made_by[name]].output
            before = unique_name(f"{name}_replaced", self._taken)
            outputs[list(outputs).index(name)] = before
            self._made_by[before] = self._made_by[name]
        node = onnx.helper.make_node(
            op,
            list(instance.inputs),
            list(instance.outputs),
            name=unique_name(f"{op}_{len(graph.node)}", self._taken),
            **instance.attributes,
        )
        self._made_by.update(dict.fromkeys(instance.outputs, len(graph.node)))
        graph.node.append(node)


def _replace_by_script(
    model: ModelProto, plugin: Plugin, op: str, instance: PluginInstance
) -> None:
    """Call a script to change the graph; the rest of the model is kept."""
    for tensor in all_tensors(model):  # The script may read any weight.
        load_stored(tensor)
    with _mute_matching():
        graph = gs.import_onnx(model)
        if not plugin.replace(graph, op, instance):
            G_LOGGER.warning(
                f"Plugin {plugin.folder} did not replace the part that computes"
                f" {', '.join(instance.outputs)}."
            )
            return
        changed = gs.export_onnx(graph)
    model.graph.CopyFrom(changed.graph)
    domains = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(
        entry for entry in changed.opset_import if entry.domain not in domains
    )


@contextmanager
def _mute_matching() -> Iterator[None]:
    """Silence onnx-graphsurgeon's messages about nodes that do not match."""
    logger: Any = gs_logger.G_LOGGER
    before = logger.severity
    if not G_LOGGER.is_enabled_for(G_LOGGER.EXTRA_VERBOSE):
        logger.severity = logger.WARNING
    try:
        yield
    finally:
        logger.severity = before
