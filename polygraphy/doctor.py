"""What is installed on this machine, and what is missing."""

from polygraphy.application.diagnosis import doctor

__all__ = ["doctor"]
