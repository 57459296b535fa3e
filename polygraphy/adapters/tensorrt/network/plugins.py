"""Libraries of plugins."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.tensorrt.library.logger import get_trt_logger
from polygraphy.adapters.tensorrt.library.module import ModuleKey, tensorrt_module
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER

load_plugins: Callable[..., Any]


def load_own_plugins() -> None:
    """Register the plugins that come with TensorRT; once is enough."""
    _registered(ModuleKey(tensorrt_module()))


@lru_cache(maxsize=8)
def _registered(key: ModuleKey) -> None:
    key.module.init_libnvinfer_plugins(get_trt_logger(), "")


@mod.export(funcify=True)
class LoadPlugins(BaseLoader):
    """Loads libraries of plugins, whose plugins register themselves, and then calls a loader."""

    def __init__(self, plugins: Sequence[str] | None = None, obj: Any = None) -> None:
        """Name the libraries.

        Args:
            plugins: paths of shared libraries.
            obj: what is passed on: anything, or a callable that is called once they are loaded.
        """
        self._plugins = [plugins] if isinstance(plugins, str) else list(plugins or ())
        self._obj = obj

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Load the libraries, and return `obj`, or what calling it with these arguments returns.

        Raises:
            BackendError: a library cannot be loaded.
        """
        for path in self._plugins:
            G_LOGGER.info(f"Loading plugin library: {path}")
            try:
                ctypes.CDLL(path)
            except OSError as error:
                raise BackendError(
                    f"The plugin library {path} cannot be loaded: {error}.",
                    backend="tensorrt",
                    hint="Check the path, and that it was built for this TensorRT.",
                ) from error
        load_own_plugins()
        return self._obj(*args, **kwargs) if callable(self._obj) else self._obj
