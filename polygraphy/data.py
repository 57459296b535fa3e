"""Rearranging saved inputs and results."""

from polygraphy.application.rearranging import concat, convert, merge

__all__ = ["concat", "convert", "merge"]
