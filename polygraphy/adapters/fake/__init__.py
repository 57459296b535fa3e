"""Adapters without a technology: for the tests of this package, and of tools that embed it.

They keep what they are given in memory, record how they are used, and are strict where a real
adapter may be lenient.
"""

from polygraphy.adapters.fake.checks import FunctionCommands, InlineIsolation
from polygraphy.adapters.fake.console import RecordingConsole
from polygraphy.adapters.fake.constants import FakeConstantEvaluator
from polygraphy.adapters.fake.files import MemorySpool
from polygraphy.adapters.fake.memory import HostMemory
from polygraphy.adapters.fake.narrow import FakeNarrowModel, FakeNarrowModels
from polygraphy.adapters.fake.perceptual import MeanDistance
from polygraphy.adapters.fake.plots import DrawnPlot, RecordingPlots
from polygraphy.adapters.fake.progress import FollowedJob, RecordingProgress
from polygraphy.adapters.fake.reports import FixedDiagnosis, RecordingReports
from polygraphy.adapters.fake.runner import FakeLoader, FakeRunner
from polygraphy.adapters.fake.store import MemoryResultStore

__all__ = [
    "DrawnPlot",
    "FakeConstantEvaluator",
    "FakeLoader",
    "FakeNarrowModel",
    "FakeNarrowModels",
    "FakeRunner",
    "FixedDiagnosis",
    "FollowedJob",
    "FunctionCommands",
    "HostMemory",
    "InlineIsolation",
    "MeanDistance",
    "MemoryResultStore",
    "MemorySpool",
    "RecordingConsole",
    "RecordingPlots",
    "RecordingProgress",
    "RecordingReports",
]
