"""Checking saved results."""

from polygraphy.application.rejudging import check_accuracy

__all__ = ["check_accuracy"]
