"""`make size` counts lines of code, and knows the feature of each file."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _size():
    spec = importlib.util.spec_from_file_location("size_of_the_house", ROOT / "benchmarks/size.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TEXT = '''"""What documents."""

import os  # Not code.

__all__ = ["Port"]

LIMIT = 3
"""What the limit is for."""


class Port(Protocol):
    """A port."""

    # A comment.
    def ask(self, text="""a
value""") -> None:
        """Ask."""


def called():
    return (
        os.sep
    )
'''


def test_documentation_imports_and_blanks_are_no_code():
    size = _size().size_of(TEXT)
    assert (size.code, size.functions, size.classes, size.protocols) == (8, 2, 1, 1)
    assert sorted(size.lengths) == [3, 4]


def test_a_file_belongs_to_the_feature_with_the_longest_prefix():
    size = _size()
    assert size.feature_of("application/run/inference") == "run, inspect, models"
    assert size.feature_of("application/diagnose/precision/half") == "diagnose"
    assert size.feature_of("cli/commands/diagnose_half") == "diagnose"
    assert size.feature_of("backend/onnxrt/loader") == "ONNX Runtime"
    assert size.feature_of("tools") == "other published names"


def test_every_prefix_of_a_feature_names_something():
    size = _size()
    paths = size.distributed_files(ROOT)
    prefixes = {prefix for prefixes in size.FEATURES.values() for prefix in prefixes}
    assert {path for path in prefixes if not any(size._within(name, path) for name in paths)} <= {
        "legacy"
    }
