"""Adapters without a technology: for the tests of this package, and of tools that embed it.

They keep what they are given in memory, record how they are used, and are strict where a real
adapter may be lenient.
"""

from polygraphy.adapters.fake.console import FollowedJob, RecordingConsole, RecordingProgress
from polygraphy.adapters.fake.narrow import FakeNarrowModel, FakeNarrowModels, FakeProgram
from polygraphy.adapters.fake.runner import (
    FakeLoader,
    FakeNodeProfiler,
    FakeRunner,
    FunctionCommands,
    HostMemory,
    InlineIsolation,
    MeanDistance,
    ScriptedEngine,
)
from polygraphy.adapters.fake.store import (
    MemoryResultStore,
)

__all__ = [
    "FakeLoader",
    "FakeNarrowModel",
    "FakeNarrowModels",
    "FakeNodeProfiler",
    "FakeProgram",
    "FakeRunner",
    "FollowedJob",
    "FunctionCommands",
    "HostMemory",
    "InlineIsolation",
    "MeanDistance",
    "MemoryResultStore",
    "RecordingConsole",
    "RecordingProgress",
    "ScriptedEngine",
]
