"""All built-in backends, in the order of the help; who needs to know about one asks here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module

from polygraphy.cli.backends.built_in import BuiltIn

_MODULES = ("onnxrt", "onnx", "openvino", "trt.backend", "tf", "pluginref", "torch")
"""The modules beside this one that declare backends; one whose file is not there is left out."""

_NEEDED_BY_ALL = ("attrs", "jinja2", "numpy", "polygraphy.cli.main", "polygraphy.comparator")


@lru_cache(maxsize=1)
def built_in() -> dict[str, BuiltIn]:
    """Return the built-in backends by name."""
    return {each.name: each for name in _MODULES for each in _declared_in(name)}


def modules_for(words: Iterable[str]) -> list[str]:
    """Return the modules that a command line needs, as far as its flags say; none of them starts
    what would not survive a fork.
    """
    flags = set(words)
    backends = (each for each in built_in().values() if each.flag in flags)
    return [*_NEEDED_BY_ALL, *(module for each in backends for module in each.modules)]


def _declared_in(name: str) -> Sequence[BuiltIn]:
    """Return the backends that a module beside this one declares; none where it is not there."""
    module = f"{__package__}.{name}"
    try:
        declared: tuple[BuiltIn, ...] = import_module(module).BACKENDS
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return ()
    return declared


def named_in(runners: Iterable[str]) -> dict[str, BuiltIn]:
    """Return the built-in backends that some runners name; a runner is the name of its backend, or
    that, a colon and the text of its flag.
    """
    names = {runner.partition(":")[0] for runner in runners}
    return {name: each for name, each in built_in().items() if name in names}


def able_in_parts() -> dict[str, str]:
    """Return the backends that run any part of an ONNX model, with their flags."""
    return {name: each.flag for name, each in built_in().items() if each.runs_parts}
