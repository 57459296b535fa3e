"""Logging: `G_LOGGER`, the logger of the process, and its classes.

A line is `[I] message`: the letter of its severity, then the time and the source line if requested,
then four spaces per level of indentation, then the message, whose further lines are indented in
place of the tags. Critical messages go to standard error, the rest to standard output.
"""

from __future__ import annotations

from polygraphy.logger.errors import was_logged
from polygraphy.logger.logger import G_LOGGER, Logger, LogMode
from polygraphy.logger.severity import SEVERITIES, SeverityTable

__all__ = ["G_LOGGER", "SEVERITIES", "LogMode", "Logger", "SeverityTable", "was_logged"]
