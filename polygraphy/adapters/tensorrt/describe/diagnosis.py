"""Which TensorRT is installed, what it can do, and on which GPUs it would run."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec

from polygraphy.adapters.tensorrt.library.capabilities import Capabilities, capabilities_of
from polygraphy.adapters.tensorrt.library.features import FEATURES
from polygraphy.adapters.tensorrt.library.gpu import driver_version, gpu_names
from polygraphy.adapters.tensorrt.library.module import is_rtx
from polygraphy.domain.environment import Section

_MODULES = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
_ARTICLE = re.compile("^(an?|the) ")
_SETTING = "POLYGRAPHY_USE_TENSORRT_RTX"


class TensorrtDiagnosis:
    """Implements the port `Diagnosis`. Modules are imported, because they alone know what they can
    do; they are never installed here.
    """

    def sections(self) -> list[Section]:
        """Return the GPUs, and one section per module that is installed."""
        used = "tensorrt_rtx" if is_rtx() else "tensorrt"
        # The one in use comes first: of the other it depends on the first whether it loads.
        names = sorted(filter(_is_installed, _MODULES), key=lambda name: name != used)
        return [_gpus(), *(_module(name, is_used=name == used) for name in names)]


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None if name not in sys.modules else bool(sys.modules[name])
    except (ImportError, ValueError):
        return False


def _gpus() -> Section:
    title, version = "GPUs", driver_version()
    if not version:
        return Section(title, (), ("None: the CUDA driver is missing, or finds no device.",))
    gpus = tuple((f"GPU {index}", name) for index, name in enumerate(gpu_names()))
    remarks = () if gpus else ("The CUDA driver finds no GPU.",)
    return Section(title, (("CUDA driver", f"up to CUDA {version}"), *gpus), remarks)


def _module(name: str, *, is_used: bool) -> Section:
    state = "in use" if is_used else f"in use with {_SETTING}={int(name == 'tensorrt_rtx')}"
    try:
        caps = capabilities_of(import_module(name))
    except Exception as error:  # A library that does not load, say.
        message = " ".join(f"{type(error).__name__}: {error}".split())
        beside = "" if is_used else f" beside the other (ask again, {state})"
        return Section(
            f"{_MODULES[name]} ({state})", (), (f"None: it does not load{beside}: {message}",)
        )
    return Section(f"{caps.name} {caps.version} ({state})", tuple(_table(caps)))


def _table(caps: Capabilities) -> list[tuple[str, str]]:
    """Return every feature that is known, and whether it is there; where it is not, who has it."""
    rows = {
        _ARTICLE.sub("", feature.label): "yes" if caps.has(name) else f"no: {feature.where}"
        for name, feature in FEATURES.items()
    }
    return sorted(rows.items(), key=lambda row: row[0].lower())
