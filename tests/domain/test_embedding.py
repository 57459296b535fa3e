"""The domain alone, in another tool: nothing is imported that the tool does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

FOREIGN = [
    "black", "filelock", "google.protobuf", "jinja2", "onnx", "onnxruntime", "pandas", "rich",
    "scipy", "sklearn", "tensorflow", "tensorrt", "torch",
]  # fmt: skip
UPPER_FLOORS = [
    "polygraphy.adapters", "polygraphy.application", "polygraphy.backend", "polygraphy.cli",
    "polygraphy.codegen", "polygraphy.comparator", "polygraphy.logger", "polygraphy.mod",
    "polygraphy.program", "polygraphy.wiring",
]  # fmt: skip

USES = {
    "Profile": """
from polygraphy.domain.tensors.profile import Profile
profile = Profile().add("x", min=(1, 3), opt=(4, 3), max=(8, 3))
assert profile.misfits({"x": (9, 3)}) == {"x": (9, 3)}
""",
    "RunResults": """
import numpy
from polygraphy.domain.results.results import RunResults
results = RunResults()
results.add([{"y": numpy.ones(2)}], runner_name="mine")
assert [step["mine"][0]["y"].sum() for step in results.split()] == [2]
""",
    "Tolerance": """
from polygraphy.domain.limits import Tolerance
assert Tolerance("max", atol=1).passed({"max_absdiff": 0.5, "max_reldiff": 9.0})
""",
    "TacticReplay": """
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
replay = TacticReplay().add("conv", Algorithm(1, 2, [TensorInfo("float", (1,))], []))
assert replay.difference(TacticReplay())["conv"][1] is None
""",
    "SimpleCompareFunc": """
import numpy
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.results.results import IterationResult
one, other = IterationResult({"y": numpy.ones(9)}), IterationResult({"y": numpy.zeros(9)})
found = SimpleCompareFunc()(one, other)["y"]
assert not found
assert found.metric_values()["median_absdiff"] == 1
""",
    "DataLoader": """
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.data.synthesis import DataLoader
metadata = TensorMetadata().add("x", DataType.FLOAT32, ("batch", 2))
assert DataLoader(input_metadata=metadata)[0]["x"].shape == (1, 2)
""",
    "every module": """
import importlib, pkgutil
import polygraphy.domain
for module in pkgutil.walk_packages(polygraphy.domain.__path__, "polygraphy.domain."):
    importlib.import_module(module.name)
""",
}

REPORT = """
import sys
print(*sorted(sys.modules))
"""


def imported_by(code: str) -> set[str]:
    """Run code in an interpreter of its own, and return the names of all modules at its end."""
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_nothing_foreign_is_imported(use: str) -> None:
    modules = imported_by(USES[use])
    assert "polygraphy.domain" in modules
    assert not modules & {*FOREIGN, *UPPER_FLOORS}


def test_importing_the_package_imports_next_to_nothing() -> None:
    modules = imported_by("import polygraphy")
    assert {name for name in modules if name.startswith("polygraphy")} == {
        "polygraphy", "polygraphy.binding",
    }  # fmt: skip
    assert not modules & {"numpy", "attr", "typing"} - imported_by("")


@pytest.mark.slow
def test_results_are_saved_without_a_backend() -> None:
    modules = imported_by("""
import io, numpy
from polygraphy.domain.results.results import RunResults
results = RunResults()
results.add([{"y": numpy.ones(2)}], runner_name="mine")
assert RunResults.from_json(results.to_json()) == results
""")
    assert "polygraphy.wiring" in modules
    assert not modules & set(FOREIGN)
