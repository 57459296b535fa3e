"""Run every combination of a plan, each in its own process."""

from polygraphy.application.sweep.sweeping import sweep

__all__ = ["sweep"]
