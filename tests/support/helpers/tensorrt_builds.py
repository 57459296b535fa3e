"""What the tests of `adapters/tensorrt/test_builds.py` and others share."""

from __future__ import annotations

from typing import Any

from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    Profile,
)


def profile() -> Profile:
    """Return a profile of `x` with a dynamic batch."""
    return Profile().add("x", (1, 8), (2, 8), (4, 8))


def build_plan(network: Any, **settings: Any) -> Any:
    """Build a network with the batch of `profile`, and return the plan."""
    config = CreateConfig(profiles=[profile()], **settings)
    return EngineBytesFromNetwork(network, config)()
