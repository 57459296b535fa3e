"""Devices on which OpenVINO can run models, for the port `sections_of`."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.openvino.compiled import core_of_process
from polygraphy.domain.environment import Section
from polygraphy.domain.errors import PolygraphyException

_TITLE = "OpenVINO Devices"
_HINT = "INFERENCE_PRECISION_HINT"


def device_sections() -> list[Section]:
    """Return the devices, and the default compute type of each; nothing without OpenVINO,
    which is imported, but never installed here.
    """
    try:
        import openvino  # noqa: F401 - Nothing is installed by that.

        core = core_of_process()
        facts = [(name, _describe_device(core, name)) for name in core.available_devices]
    except ModuleNotFoundError:
        return []
    except PolygraphyException as error:
        return [Section(_TITLE, (), (f"None: {error}",))]
    except Exception as error:  # For example, a shared library that does not load.
        message = f"None: OpenVINO does not load: {type(error).__name__}: {error}"
        return [Section(_TITLE, (), (message,))]
    return [Section(_TITLE, tuple(facts))]


def _describe_device(core: Any, device: str) -> str:
    """Return the full name and the default compute type of a device as text."""
    lines = [core.get_property(device, "FULL_DEVICE_NAME")]
    if _HINT in core.get_property(device, "SUPPORTED_PROPERTIES"):
        lines.append(f"computes in {core.get_property(device, _HINT).get_type_name()} by default")
    return ", ".join(lines)
