"""A report of installed and missing packages."""

from polygraphy.application.doctor import doctor

__all__ = ["doctor"]
