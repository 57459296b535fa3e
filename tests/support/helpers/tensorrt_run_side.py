"""What the tests of `adapters/tensorrt/test_runtime_names.py` and others share."""

from __future__ import annotations

RUN_SIDE = ("contexts", "memory", "outputs", "runner", "session", "tensors")
