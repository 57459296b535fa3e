"""What is installed on this machine, and what is missing."""

from polygraphy.application.doctor import doctor

__all__ = ["doctor"]
