"""Adapters without a technology: for the tests of this package, and of tools that embed it.

They keep what they are given in memory, record how they are used, and are strict where a real
adapter may be lenient.
"""

from polygraphy.adapters.fake.checks import FunctionCommands, ScriptedQuestions
from polygraphy.adapters.fake.console import RecordingConsole
from polygraphy.adapters.fake.constants import FakeConstantEvaluator
from polygraphy.adapters.fake.diagnosis import FixedDiagnosis
from polygraphy.adapters.fake.isolation import InlineIsolation
from polygraphy.adapters.fake.loader import FakeLoader
from polygraphy.adapters.fake.memory import HostMemory
from polygraphy.adapters.fake.model_file import MemoryModelWriter
from polygraphy.adapters.fake.narrow import FakeNarrowModel, FakeNarrowModels
from polygraphy.adapters.fake.perceptual import MeanDistance
from polygraphy.adapters.fake.plots import DrawnPlot, RecordingPlots
from polygraphy.adapters.fake.precision import FakePrecisionCaster, FakeQuantizer
from polygraphy.adapters.fake.progress import FollowedJob, RecordingProgress
from polygraphy.adapters.fake.reports import RecordingReports
from polygraphy.adapters.fake.runner import FakeRunner
from polygraphy.adapters.fake.shapes import FakeShapeInference
from polygraphy.adapters.fake.spool import MemorySpool, MemorySpools
from polygraphy.adapters.fake.store import MemoryResultStore
from polygraphy.adapters.fake.text import MemoryTextFiles

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
    "ScriptedQuestions",
]
