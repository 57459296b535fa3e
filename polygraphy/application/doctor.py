"""Shows what is installed on a machine."""

from __future__ import annotations

from polygraphy.binding import function_for, resolve
from polygraphy.domain.environment import Environment
from polygraphy.ports.machine import SECTIONS, sections_of
from polygraphy.ports.reporting import Reports


def doctor() -> None:
    """Report on versions, execution providers, devices and settings; nothing is changed."""
    sections = [section for key in SECTIONS for section in function_for(sections_of, key)()]
    resolve(Reports).environment(Environment(tuple(sections)))
