"""Dictionaries and lists that hold values of one type only, at the address that scripts use."""

from polygraphy.legacy import typed
from polygraphy.legacy.typed import *  # noqa: F403

__all__ = []
__all__ += typed.__all__
