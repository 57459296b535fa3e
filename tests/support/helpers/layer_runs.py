"""What the tests of `acceptance/test_layers.py` and others share."""

from __future__ import annotations

from typing import Any

from tests.support import classifier_files

LAYERS = [name for node in classifier_files.classifier().graph.node for name in node.output]


def compared_outputs(done: Any) -> list[str]:
    """Return the names of the compared outputs, in the order of the log."""
    lines = [line for line in done.lines if "Comparing Output: " in line]
    return [line.split("Comparing Output: ")[1].split("'")[1] for line in lines]
