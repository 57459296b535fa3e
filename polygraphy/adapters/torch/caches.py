"""Runs modules that accept keys and values as one argument with the inputs of an ONNX model."""

from __future__ import annotations

import importlib
import inspect
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.torch.exported_files import load_exported
from polygraphy.domain.errors import ModelError

torch: Any = mod.lazy_import("torch", log=False)
exporter_dynamo: Any = mod.lazy_import("transformers.exporters.exporter_dynamo", log=False)
cache_utils: Any = mod.lazy_import("transformers.cache_utils", log=False)

CACHES = ("past_key_values", "cache", "kv_cache", "past_kv")
"""Names of the parameter of `forward` for the cache; older transformers have the first."""
_COUNT = "cumulative_length"
_TYPE = re.compile(rb'"type\\*": *\\*"(transformers(?:\.\w+)*[.:]\w+)')


@frozen
class CacheEntry:
    """An input of an ONNX model that is part of a cache.

    Attributes:
        name: the input.
        layer: the number of its layer.
        part: ``keys``, ``values`` or ``cumulative_length``.
        parameter: the parameter of `forward` that it is part of; empty for the cache.
        path: its indices or keys in that parameter, as exporters write them into its name.
    """

    name: str
    layer: int = 0
    part: str = ""
    parameter: str = ""
    path: Sequence[int | str] = ()


def cache_entries(model: Any, names: Sequence[str]) -> Sequence[CacheEntry]:
    """Return the inputs that are the cache of a module.
    The result is empty if `forward` accepts the inputs as they are.
    """
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        return ()
    parameters = inspect.signature(model.forward).parameters
    other_names = [name for name in names if name not in parameters]
    nested = () if _uses_transformers(model) else tuple(_nested_entries(model.forward, names))
    if nested and len(nested) == len(other_names):
        return nested
    is_encoder = any("encoder" in name or "cross" in name for name in other_names)
    if _cache_parameter(model) is None or is_encoder or not other_names:
        return ()
    return tuple(_entries(other_names))


def _nested_entries(forward: Any, names: Sequence[str]) -> Iterator[CacheEntry]:
    """Yield the inputs that are elements of a nested parameter:
    `states_0_1` of `states`, `batch_ids` or `ids` of `batch`.
    """
    parameters = inspect.signature(forward).parameters
    lists = [name for name in parameters if name not in names]
    code = getattr(forward, "__code__", None)
    keys = {text for text in getattr(code, "co_consts", ()) if isinstance(text, str)}
    for name in names:
        for parameter in () if name in parameters else lists:
            numbers = re.fullmatch(rf"{re.escape(parameter)}_?((?:[_.]?\d+)+)", name)
            key = name.removeprefix(parameter).lstrip("_.")
            if numbers:
                path: tuple[int | str, ...] = tuple(map(int, re.findall(r"\d+", numbers[1])))
            elif key in keys and (key != name or len(lists) == 1):
                path = (key,)
            else:
                continue
            yield CacheEntry(name, parameter=parameter, path=path)
            break


def _cache_parameter(model: Any) -> str | None:
    """Return the name of the parameter for the cache; None if the module has none."""
    parameters = inspect.signature(model.forward).parameters
    return next((name for name in CACHES if name in parameters), None)


def _entries(names: Sequence[str]) -> Iterator[CacheEntry]:
    """Yield the entries of a cache; names without a number or a part are taken in order."""
    for index, name in enumerate(names):
        number = re.search(r"\d+", name)
        words = set(re.split(r"[^a-z]+", name.lower().replace("past_key_values", "")))
        if _COUNT in name:
            part = _COUNT
        elif words & {"value", "values", "v"}:
            part = "values"
        elif words & {"key", "keys", "k"}:
            part = "keys"
        else:
            yield CacheEntry(name, index // 2, ("keys", "values")[index % 2])
            continue
        yield CacheEntry(name, int(number[0]) if number else index // 2, part)


class FlatCacheModule:
    """Creates modules with a flat cache in a function, because PyTorch is imported late."""

    @staticmethod
    def of(model: Any, names: Sequence[str], entries: Sequence[CacheEntry]) -> Any:
        """Return a module with the inputs `names` of an ONNX model,
        which returns the cache as tensors.
        """

        class Flat(torch.nn.Module):  # type: ignore[misc]
            """Collects the tensors of the cache into one argument."""

            def __init__(self) -> None:
                """Keep the wrapped module as a submodule."""
                super().__init__()
                self.model = model

            def forward(self, *tensors: Any) -> tuple[Any, ...]:
                """Return the outputs, with the entries of the cache in the order of the inputs."""
                values = dict(zip(names, tensors))
                cached = {entry: values.pop(entry.name) for entry in entries}
                parameters = inspect.signature(model.forward).parameters
                if "use_cache" in parameters:
                    values["use_cache"] = True
                nested = {entry: cached.pop(entry) for entry in entries if entry.parameter}
                for parameter in dict.fromkeys(entry.parameter for entry in nested):
                    tensors_in = {
                        entry.path: tensor
                        for entry, tensor in nested.items()
                        if entry.parameter == parameter
                    }
                    values[parameter] = _nest(tensors_in)
                if cached:
                    values[_cache_parameter(model) or ""] = _cache_of(model, cached)
                result = model(**values)
                return tuple(_tensors_of(result, entries))

        return Flat()


def _nest(tensors: Mapping[Sequence[int | str], Any]) -> Any:
    """Return tensors as nested lists and dictionaries, by their indices and keys."""
    if () in tensors:
        return tensors[()]
    groups: dict[Any, dict[Sequence[int | str], Any]] = {}
    for path, tensor in tensors.items():
        groups.setdefault(path[0], {})[path[1:]] = tensor
    nested = {key: _nest(group) for key, group in groups.items()}
    return nested if isinstance(next(iter(nested)), str) else [nested[i] for i in sorted(nested)]


def _cache_of(model: Any, cached: Mapping[CacheEntry, Any]) -> Any:
    """Return the cache object of a transformers module;
    for other modules, a key and a value for each layer."""
    layers: dict[int, dict[str, Any]] = {}
    for entry, tensor in cached.items():
        layers.setdefault(entry.layer, {})[entry.part] = tensor
    if not _uses_transformers(model):
        return [(layer["keys"], layer["values"]) for _, layer in sorted(layers.items())]
    if not any(_COUNT in layer for layer in layers.values()):
        cache = cache_utils.DynamicCache()
        for number, layer in sorted(layers.items()):
            cache.update(layer["keys"], layer["values"], number)
        return cache
    slots = next(iter(layers.values()))["keys"].shape[2]
    cache = cache_utils.StaticCache(config=model.config, max_cache_len=slots)
    for number, layer in layers.items():
        layer_cache = cache.layers[number]
        layer_cache.lazy_initialization(layer["keys"], layer["values"])
        for part, tensor in layer.items():  # A copy, because the module writes into it.
            setattr(layer_cache, part, tensor.clone())
    return cache


def _uses_transformers(model: Any) -> bool:
    """Return whether a module is a model of transformers."""
    return any(kind.__module__.partition(".")[0] == "transformers" for kind in type(model).__mro__)


def _tensors_of(result: Any, entries: Sequence[CacheEntry]) -> Iterator[Any]:
    """Yield the tensors that a module returned."""
    if isinstance(result, torch.Tensor):
        yield result
    elif hasattr(result, "layers") and not isinstance(result, (Mapping, tuple, list)):
        order = entries or [
            CacheEntry("", layer, part)
            for layer in range(len(result.layers))
            for part in ("keys", "values")
        ]
        for entry in order:
            yield getattr(result.layers[entry.layer], entry.part)
    elif isinstance(result, (Mapping, tuple, list)):
        for value in result.values() if isinstance(result, Mapping) else result:
            yield from _tensors_of(value, entries)


def unregistered_types(path: Path) -> list[str]:
    """Return the transformers classes in the inputs and outputs of an exported program, each as a
    path with a colon or a point before the class."""
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(name) for name in archive.namelist() if name.endswith(".json")]
    except (OSError, zipfile.BadZipFile, KeyError):
        return []
    types = [type_name for text in texts for type_name in _TYPE.findall(text)]
    return [*dict.fromkeys(name.decode() for name in types)]


def load_with_types(path: Path, types: Sequence[str]) -> Any:
    """Return an exported program whose inputs are caches of transformers.

    Raises:
        ModelError: transformers is not installed, or cannot read its classes.
    """
    try:
        for name in types:
            exporter_dynamo.register_pytree_node(_class_named(name))
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return load_exported(path)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{path} has inputs or outputs of the type {types[0]}, which PyTorch cannot read.",
            path=path,
            hint="Install the release of transformers that exported it, or load the program in a"
            " script (--torch script.py:function).",
        ) from error


def _class_named(name: str) -> Any:
    """Return the class of transformers with a name."""
    module, _, kind = name.replace(":", ".").rpartition(".")
    return getattr(importlib.import_module(module), kind)
