"""Adapters without a technology: for the tests of this package, and of tools that embed it.

They keep what they are given in memory, record how they are used, and are strict where a real
adapter may be lenient.
"""

from polygraphy.adapters.fake.checks import FunctionCommands, InlineIsolation, ScriptedQuestions
from polygraphy.adapters.fake.console import RecordingConsole
from polygraphy.adapters.fake.constants import FakeConstantEvaluator, FakeShapeInference
from polygraphy.adapters.fake.files import (
    MemoryModelWriter,
    MemorySpool,
    MemorySpools,
    MemoryTextFiles,
)
from polygraphy.adapters.fake.memory import HostMemory
from polygraphy.adapters.fake.narrow import FakeNarrowModel, FakeNarrowModels
from polygraphy.adapters.fake.perceptual import MeanDistance
from polygraphy.adapters.fake.plots import DrawnPlot, RecordingPlots
from polygraphy.adapters.fake.precision import FakePrecisionCaster, FakeQuantizer
from polygraphy.adapters.fake.progress import FollowedJob, RecordingProgress
from polygraphy.adapters.fake.reports import FixedDiagnosis, RecordingReports
from polygraphy.adapters.fake.runner import FakeLoader, FakeRunner
from polygraphy.adapters.fake.store import MemoryResultStore
from polygraphy.adapters.fake.sweep import ScriptedEngine

__all__ = [
    "DrawnPlot",
    "FakeConstantEvaluator",
    "FakeLoader",
    "FakeNarrowModel",
    "FakeNarrowModels",
    "FakePrecisionCaster",
    "FakeQuantizer",
    "FakeRunner",
    "FakeShapeInference",
    "FixedDiagnosis",
    "FollowedJob",
    "FunctionCommands",
    "HostMemory",
    "InlineIsolation",
    "MeanDistance",
    "MemoryModelWriter",
    "MemoryResultStore",
    "MemorySpool",
    "MemorySpools",
    "MemoryTextFiles",
    "RecordingConsole",
    "RecordingPlots",
    "RecordingProgress",
    "RecordingReports",
    "ScriptedEngine",
    "ScriptedQuestions",
]
