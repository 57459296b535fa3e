"""Which number makes an error smallest."""

from __future__ import annotations

from collections.abc import Callable

_EXPONENTS = tuple(step / 2 for step in range(-24, 13))
"""Powers of ten that are tried first."""
_SECTIONS, _GOLDEN = 32, (5**0.5 - 1) / 2
"""Steps after which a number is known to six digits, and what each leaves of the interval."""
_DIGITS = 6


def nearest_number(error: Callable[[float], float]) -> float:
    """Return the number, of either sign, for which an error is smallest: of powers of ten first,
    and around the best of these by golden section.

    Args:
        error: of a number; infinite where there is none.
    """
    sign, best = min(
        ((s, e) for s in (1.0, -1.0) for e in _EXPONENTS), key=lambda c: error(c[0] * 10 ** c[1])
    )
    low, high = best - 0.5, best + 0.5
    for _ in range(_SECTIONS):
        inner = (high - low) * _GOLDEN
        if error(sign * 10 ** (high - inner)) <= error(sign * 10 ** (low + inner)):
            high = low + inner
        else:
            low = high - inner
    return sign * float(f"{10 ** ((low + high) / 2):.{_DIGITS}g}")
