"""How much of something is enough: the smallest number for which a test is good."""

from __future__ import annotations

from collections.abc import Callable

from polygraphy.domain.search.outcome import Outcome

Test = Callable[[int], Outcome]


def first_good(most: int, test: Test) -> int | None:
    """Find by halving the smallest number that is good, if all larger ones are good, too.

    At most ``2 + log2(most + 1)`` numbers are tested where all answers are clear; one more for each
    that is not. Where larger numbers are not always good, a number is found that is good and has
    one below it that is not known to be.

    Args:
        most: the largest number; it is tested first, because nothing is found if it is not good.
        test: answers about a number from 0 to `most`.

    Returns:
        A number whose test was good; None if that of `most` was not.
    """
    if test(most) is not Outcome.GOOD:
        return None
    good, bad = most, -1
    unclear: set[int] = set()
    while True:
        candidates = [each for each in range(bad + 1, good) if each not in unclear]
        if not candidates:
            return good
        middle = (bad + good) // 2
        chosen = min(candidates, key=lambda each: (abs(each - middle), each))
        outcome = test(chosen)
        if outcome is Outcome.GOOD:
            good = chosen
        elif outcome is Outcome.BAD:
            bad = chosen
        else:
            unclear.add(chosen)


def first_good_in_order(most: int, test: Test) -> int | None:
    """Find the smallest number from 0 to `most` that is good by testing one after the other; None
    if there is none.
    """
    return next((each for each in range(most + 1) if test(each) is Outcome.GOOD), None)
