"""A folder of plugins: each says in a script which parts of a model it could take the place of.

``<folder>/<plugin>/pattern.py`` defines ``get_plugin_metadata()``, which returns a dictionary with
``name`` and ``op``, and ``get_matching_subgraphs(graph)``, which returns for each part of an
onnx-graphsurgeon graph a dictionary with ``inputs``, ``outputs`` and ``attributes``. It may define
``replace_with_plugin(graph, input_tensors, output_tensors, attrs, op)``, which changes the graph
itself and returns whether it did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from polygraphy import mod
from polygraphy.domain.errors import BackendError, FileError, PolygraphyException, UnknownNameError
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch

_SCRIPT = "pattern.py"
_NUMBERS = (bool, int, float, str)


@frozen
class Plugin:
    """One plugin.

    Attributes:
        folder: the name of its folder, by which it is chosen.
        path: its script.
        names: what the script defines, by name.
    """

    folder: str
    path: Path
    names: Mapping[str, Any]

    def match(self, graph: Any) -> PluginMatch:
        """Return which parts of an onnx-graphsurgeon graph the plugin could take the place of.

        Raises:
            BackendError: the script fails, or returns something else.
        """
        name, op = self.identity()
        found = self._call("get_matching_subgraphs", graph)
        try:
            return PluginMatch(
                name=name,
                op=op,
                instances=tuple(
                    PluginInstance(
                        inputs=tuple(map(str, one["inputs"])),
                        outputs=tuple(map(str, one["outputs"])),
                        attributes={
                            name: _plain(value) for name, value in one["attributes"].items()
                        },
                    )
                    for one in found or ()
                ),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise BackendError(
                f"{self.path}: get_matching_subgraphs must return a list of dictionaries with"
                f" inputs, outputs and attributes. ({type(error).__name__}: {error})"
            ) from error

    def identity(self) -> tuple[str, str]:
        """Return the name that the plugin gives itself, and the type of its operator.

        Raises:
            BackendError: the script fails, or says neither.
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
        """Whether the script changes graphs itself."""
        return "replace_with_plugin" in self.names

    def replace(self, graph: Any, op: str, instance: PluginInstance) -> bool:
        """Let the script change an onnx-graphsurgeon graph, and return whether it did.

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
        if function not in self.names:
            raise UnknownNameError(f"In {self.path}, the function", function, ())
        called: Callable[..., Any] = self.names[function]
        try:
            return called(*arguments)
        except PolygraphyException:
            raise
        except Exception as error:  # of a user's script: anything
            raise BackendError(
                f"{self.path}: {function} failed: {type(error).__name__}: {error}"
            ) from error


def plugins_in(
    folder: str, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> list[Plugin]:
    """Return the plugins of a folder, by name; each script is run once.

    Args:
        folder: the folder.
        include: names of the folders of those that are wanted (default: all).
        exclude: names of those that are not.

    Raises:
        FileError: there is no such folder, or no plugin in it.
        UnknownNameError: there is no plugin of a name.
        PolygraphyException: a script cannot be run.
    """
    scripts = {path.parent.name: path for path in sorted(Path(folder).glob(f"*/{_SCRIPT}"))}
    if not scripts:
        raise FileError(
            f"There is no plugin in {folder}.",
            path=folder,
            hint=f"Each is a folder in it with a script {_SCRIPT}.",
        )
    for name in (*(include or ()), *(exclude or ())):
        if name not in scripts:
            raise UnknownNameError("Plugin", name, list(scripts))
    return [
        Plugin(name, path, mod.import_from_script(path, "__dict__"))
        for name, path in scripts.items()
        if (include is None or name in include) and name not in (exclude or ())
    ]


def _plain(value: Any) -> Any:
    """Return an attribute as numbers, texts and lists of these; TypeError for anything else."""
    if isinstance(value, _NUMBERS):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # Arrays and numbers of NumPy.
        return _plain(value.tolist())
    raise TypeError(f"an attribute cannot be a {type(value).__name__}")
