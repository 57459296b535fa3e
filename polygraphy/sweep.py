"""Running every combination of a plan, each in a process of its own."""

from polygraphy.application.sweep.sweeping import sweep

__all__ = ["sweep"]
