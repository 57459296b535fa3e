"""Which number makes an error smallest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

EXPONENTS = tuple(step / 2 for step in range(-24, 13))
"""Powers of ten that are tried first."""
_SECTIONS, _GOLDEN = 32, (5**0.5 - 1) / 2
"""Steps after which a number is known to six digits, and what each leaves of the interval."""


def nearest_number(
    error: Callable[[float], float],
    *,
    signs: Sequence[float] = (1.0, -1.0),
    exponents: Sequence[float] = EXPONENTS,
    digits: int = 6,
) -> float:
    """Return the number for which an error is smallest: of powers of ten first, and around the best
    of these by golden section.

    Args:
        error: of a number; infinite where there is none.
        signs: 1 and -1, or one of them.
        exponents: the powers of ten that are tried first, half a decade apart.
        digits: how many decimal digits the number has, six at most.
    """
    sign, best = min(
        ((s, e) for s in signs for e in exponents), key=lambda c: error(c[0] * 10 ** c[1])
    )

    def at(exponent: float) -> float:
        return error(sign * 10**exponent)

    low, high = best - 0.5, best + 0.5
    left, right = high - _GOLDEN, low + _GOLDEN
    at_left, at_right = at(left), at(right)
    for _ in range(_SECTIONS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - (high - low) * _GOLDEN
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + (high - low) * _GOLDEN
            at_right = at(right)
    return sign * float(f"{10 ** ((low + high) / 2):.{digits}g}")
