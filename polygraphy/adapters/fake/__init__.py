"""Adapters without a technology: for the tests of this package, and of tools that embed it.

They keep values in memory, record their use, and reject errors that a real adapter may accept.
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
