"""Which files a TensorRT build reads and writes."""

from __future__ import annotations

from polygraphy.cli.backends.trt.precision_options import TrtCalibrationOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions
from polygraphy.cli.declare.command import Values

Named = list[tuple[str, str | None]]


def read_by_trt(values: Values) -> Named:
    """Return what is only read, each with its flag."""
    tactics = values[TrtTacticOptions]
    cache = tactics.load_timing_cache
    return [
        ("--load-tactics", tactics.load_tactics),
        ("--exclude-tactics", tactics.exclude_tactics),
        ("--load-timing-cache", None if cache == tactics.save_timing_cache else cache),
    ]


def written_by_trt(values: Values) -> Named:
    """Return what is written, or both read and written, each with its flag."""
    tactics = values[TrtTacticOptions]
    return [
        ("--save-tactics", tactics.save_tactics),
        ("--save-timing-cache", tactics.save_timing_cache),
        ("--timing-cache", tactics.timing_cache),
        ("--calibration-cache", values[TrtCalibrationOptions].calibration_cache),
    ]
