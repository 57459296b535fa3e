"""Functions that users hand over, checked before they are called."""

from polygraphy.domain.calling import check_takes

__all__ = ["check_takes"]
