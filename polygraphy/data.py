"""Merge, concatenate and convert saved inputs and results."""

from polygraphy.application.data_files import concat, convert, merge

__all__ = ["concat", "convert", "merge"]
