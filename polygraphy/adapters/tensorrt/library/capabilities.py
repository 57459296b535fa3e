"""What the TensorRT in use can do, found out by looking for classes, members and enum values.

Versions are never compared: the same feature came, went and was renumbered at different places in
TensorRT and in TensorRT-RTX. One table says for each feature how it shows, who has it, and what to
do without it; every check and every error message comes from that table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attrs import frozen

from polygraphy.adapters.tensorrt.library.features import FEATURES, MEMBERS, Feature
from polygraphy.adapters.tensorrt.library.module import ModuleKey, tensorrt_module
from polygraphy.domain.errors import BackendError


@frozen
class Capabilities:
    """What one TensorRT module can do.

    Attributes:
        name: ``TensorRT`` or ``TensorRT-RTX``.
        version: as the module says, such as ``10.16.1.11``.
        features: the names (see `features.FEATURES`) of those that it has.
    """

    name: str
    version: str
    features: frozenset[str]

    def has(self, feature: str) -> bool:
        """Return whether the module has a feature; `feature` is a key of `features.FEATURES`."""
        FEATURES[feature]  # A misspelt name must not read as a feature that is missing.
        return feature in self.features

    def require(self, feature: str, asked: str) -> None:
        """Do nothing if the module has a feature.

        Args:
            feature: a key of `features.FEATURES`.
            asked: what the user asked for, as they would write it: ``use_dla=True``, ``--int8``.

        Raises:
            BackendError: it does not; the message says who has it and what to do instead.
        """
        if self.has(feature):
            return
        wanted = FEATURES[feature]
        raise BackendError(
            f"{asked} needs {wanted.label}, which {self.name} {self.version} does not have: "
            f"{wanted.where}.",
            backend="tensorrt",
            hint=wanted.instead,
        )


def capabilities() -> Capabilities:
    """Return what the module in use can do; found out once per module.

    Raises:
        MissingDependencyError: TensorRT is not installed.
    """
    return capabilities_of(tensorrt_module())


def capabilities_of(module: Any) -> Capabilities:
    """Return what a TensorRT module can do, in use or not; found out once."""
    return _looked_up(ModuleKey(module))


def require(feature: str, asked: str) -> None:
    """Do nothing if the module in use has a feature, else raise: see `Capabilities.require`."""
    capabilities().require(feature, asked)


def enum_value(enum: str, name: str, asked: str) -> Any:
    """Return a member of an enum of the module in use, by name in any case.

    Args:
        enum: the name of the enum: ``BuilderFlag``.
        name: the name of the member: ``fp16``.
        asked: what the user asked for, as they would write it.

    Raises:
        BackendError: there is no such member, or no such enum; the message lists what there is.
    """
    module = tensorrt_module()
    found = getattr(getattr(module, enum, None), name.upper(), None)
    if found is not None:
        return found
    known = sorted(getattr(getattr(module, enum, None), "__members__", ()))
    caps = capabilities()
    where = MEMBERS.get(f"{enum}.{name.upper()}", "")
    has_it = f": {where}." if where else "."
    raise BackendError(
        f"{asked} needs {enum}.{name.upper()}, which {caps.name} {caps.version} does not have"
        f"{has_it}",
        backend="tensorrt",
        hint=f"Available: {', '.join(known)}." if known else f"It has no {enum} at all.",
    )


@lru_cache(maxsize=8)
def _looked_up(key: ModuleKey) -> Capabilities:
    module = key.module
    is_rtx = str(getattr(module, "__name__", "")) == "tensorrt_rtx"
    return Capabilities(
        name="TensorRT-RTX" if is_rtx else "TensorRT",
        version=str(getattr(module, "__version__", "of unknown version")),
        features=frozenset(name for name, wanted in FEATURES.items() if _shows(module, wanted)),
    )


def _shows(module: Any, feature: Feature) -> bool:
    return any(_exists(module, path) for path in feature.signs)


def _exists(module: Any, path: str) -> bool:
    """Return whether a dotted name, such as ``BuilderFlag.FP16``, exists in a module."""
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
