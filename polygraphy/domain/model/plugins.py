"""Parts of a model that a plugin could compute in one go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Factory, frozen


@frozen
class PluginInstance:
    """A part of a model that a plugin could replace.

    Attributes:
        inputs: the tensors that it reads, in the order of the plugin's inputs.
        outputs: the tensors that it computes, in the order of the plugin's outputs.
        attributes: the attributes that configure the plugin: numbers, strings, and lists of these.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = Factory(dict)


@frozen
class PluginMatch:
    """A plugin, and the parts of a model that it could replace.

    Attributes:
        name: of the plugin.
        op: the type of the operator that it implements.
        instances: the parts, in the order of the model.
    """

    name: str
    op: str
    instances: tuple[PluginInstance, ...] = ()
