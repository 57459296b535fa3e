"""Searches among numbers: the smallest that is enough, and that of the smallest error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from polygraphy.domain.search.subsets import Outcome

Test = Callable[[int], Outcome]


def first_good(most: int, test: Test) -> int | None:
    """Return the smallest good number by bisection, assuming that all larger ones are good.
    The result is None if none is.

    At most ``2 + log2(most + 1)`` numbers are tested if all answers are clear, and one more for
    each answer that is not. If larger numbers are not always good, the result is a good number just
    above one that is not known to be good.

    Args:
        most: the largest number; it is tested first, because nothing is found if it is not good.
        test: returns the outcome for a number from 0 to `most`.

    Returns:
        A number whose test was good; None if that of `most` was not.
    """
    if test(most) is not Outcome.GOOD:
        return None
    good, bad = most, -1
    unclear: set[int] = set()
    while True:
        candidates = [index for index in range(bad + 1, good) if index not in unclear]
        if not candidates:
            return good
        middle = (bad + good) // 2
        chosen = min(candidates, key=lambda index: (abs(index - middle), index))
        outcome = test(chosen)
        if outcome is Outcome.GOOD:
            good = chosen
        elif outcome is Outcome.BAD:
            bad = chosen
        else:
            unclear.add(chosen)


def first_good_in_order(most: int, test: Test) -> int | None:
    """Return the smallest good number from 0 to `most`, testing in order; None if there is none."""
    return next((index for index in range(most + 1) if test(index) is Outcome.GOOD), None)


_EXPONENTS = tuple(step / 2 for step in range(-24, 13))
"""Powers of ten that are tried first."""
_SECTIONS, _GOLDEN = 32, (5**0.5 - 1) / 2
"""Steps after which a number is known to six digits, and what each leaves of the interval."""
_DIGITS = (3, 6)
"""Decimal digits that a number is rounded to; people write numbers with few."""
_WHOLE = tuple(float(number) for number in range(1, 9))
"""Whole numbers that are tried if others have no error: only they can be the exponent of a negative
number."""
MOST_NUMBERS = 2 * len(_EXPONENTS) + 2 + _SECTIONS + 1 + len(_DIGITS) + 2 * len(_WHOLE)
"""Numbers whose error `nearest_number` computes."""


def nearest_number(
    error: Callable[[float], float],
    *,
    signs: Sequence[float] = (1.0, -1.0),
    exponents: Sequence[float] = _EXPONENTS,
) -> float:
    """Return the number with the smallest error:
    0, or the best power of ten refined by golden-section search, rounded to three decimal digits
    if that is as good, else to six. If the error of some powers is infinite, a small whole number
    may be better.

    Args:
        error: returns the error of a number; infinite if there is none.
        signs: 1 and -1, or one of them.
        exponents: the powers of ten that are tried first, half a decade apart.
    """
    errors = {(s, e): error(s * 10**e) for s in signs for e in exponents}
    sign, best = min(errors, key=errors.__getitem__)

    def error_at(exponent: float) -> float:
        """Return the error of the number with an exponent."""
        return error(sign * 10**exponent)

    low, high = best - 0.5, best + 0.5
    left, right = high - _GOLDEN, low + _GOLDEN
    at_left, at_right = error_at(left), error_at(right)
    for _ in range(_SECTIONS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - (high - low) * _GOLDEN
            at_left = error_at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + (high - low) * _GOLDEN
            at_right = error_at(right)
    number = sign * 10 ** ((low + high) / 2)
    candidates = [0.0, *(float(f"{number:.{digits}g}") for digits in _DIGITS)]
    if not all(map(isfinite, errors.values())):
        candidates += [sign * integer for sign in signs for integer in _WHOLE]
    return min(candidates, key=error)
