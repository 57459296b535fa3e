"""Devices, and the environment variables that change what this package does."""

from __future__ import annotations

import os
from pathlib import Path

from polygraphy.domain.environment import Section

_DRIVER = Path("/proc/driver/nvidia")

_VARIABLES = (
    "POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB",
    "POLYGRAPHY_ASK_BEFORE_INSTALL",
    "POLYGRAPHY_AUTOINSTALL_DEPS",
    "POLYGRAPHY_CONSOLE",
    "POLYGRAPHY_EXIT_CODES",
    "POLYGRAPHY_EXPANSION_LIMIT_MB",
    "POLYGRAPHY_INSTALL_CMD",
    "POLYGRAPHY_INTERNAL_CORRECTNESS_CHECKS",
    "POLYGRAPHY_TRIAL_TIME_LIMIT_S",
    "POLYGRAPHY_USE_TENSORRT_RTX",
)


class ThisMachine:
    """Implements the port `Diagnosis`.

    Args:
        driver: the folder in which the driver of NVIDIA's devices tells about itself.
    """

    def __init__(self, driver: Path = _DRIVER) -> None:
        self._driver = driver

    def sections(self) -> list[Section]:
        """Return the devices and the variables."""
        variables = tuple((name, _value(name)) for name in _VARIABLES)
        return [self._devices(), Section("Environment Variables", variables)]

    def _devices(self) -> Section:
        facts = []
        version = _read(self._driver / "version").partition("\n")[0]
        if version:
            facts.append(("driver", version))
        for information in sorted(self._driver.glob("gpus/*/information")):
            lines = dict(
                line.split(":", 1) for line in _read(information).splitlines() if ":" in line
            )
            facts.append((information.parent.name, lines.get("Model", "unknown model").strip()))
        return Section("Devices", tuple(facts), () if facts else ("No NVIDIA driver was found.",))


def _value(name: str) -> str:
    return repr(os.environ[name]) if name in os.environ else "not set"


def _read(path: Path) -> str:
    """Return the text of a file, empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
