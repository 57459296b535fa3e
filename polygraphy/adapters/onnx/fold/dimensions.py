"""Arithmetic of the elements of shapes, of which some are known, some named, and some unknown.

A name stands for the same number, which is not negative, wherever it occurs; None is what is not
known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

Element = Union[int, str, None]
Shape = Sequence[Element]


def on_numbers(compute: Callable[[int, int], int | None]) -> Callable[[Element, Element], Element]:
    """Return a function of two elements that computes what is known of both, and nothing else."""

    def rule(left: Element, right: Element) -> Element:
        if isinstance(left, int) and isinstance(right, int):
            return compute(left, right)
        return None

    return rule


def plus(left: Element, right: Element) -> Element:
    """Return the sum of two elements."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return right if left == 0 else left if right == 0 else None


def minus(left: Element, right: Element) -> Element:
    """Return the difference of two elements."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    if right == 0:
        return left
    return 0 if left == right and left is not None else None


def times(left: Element, right: Element) -> Element:
    """Return the product of two elements."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 0 or right == 0:
        return 0
    return right if left == 1 else left if right == 1 else None


def divided(dividend: Element, divisor: Element) -> Element:
    """Return the quotient of two elements, rounded towards zero as integers are."""
    if divisor == 1:
        return dividend
    if not isinstance(dividend, int) or not isinstance(divisor, int) or divisor == 0:
        return None
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def equal(left: Element, right: Element) -> Element:
    """Return whether two elements are equal."""
    if left is None or right is None:
        return None
    if left == right or (isinstance(left, int) and isinstance(right, int)):
        return int(left == right)
    # A dimension has some length, but none below 0.
    return 0 if any(isinstance(each, int) and each < 0 for each in (left, right)) else None


def chosen(condition: Element, left: Element, right: Element) -> Element:
    """Return the left element where the condition holds, else the right one."""
    if condition is None:
        return left if left == right else None
    return left if condition else right
