"""Hundreds of fast cases as one test, whose failure names each case that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def for_each(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test with every case in one call.

    pytest spends longer on a test than these tests take. All cases run, and share the fixtures:
    a test that changes its fixtures is for `parametrize`.
    """
    arguments = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    listed = list(cases)
    assert listed, "there is no case"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        """Return a test that runs another with every case."""

        @functools.wraps(test)
        def test_all_cases(**fixtures: Any) -> None:
            """Run the test with every case, then raise AssertionError for those that fail."""
            failures: list[tuple[str, Exception]] = []
            for case in listed:
                values = case if len(arguments) > 1 else (case,)
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except Exception as error:
                    failures.append((", ".join(map(repr, values)), error))
            if failures:
                lines = [f"{name}: {type(error).__name__}: {error}" for name, error in failures]
                summary = f"{len(failures)} of {len(listed)} cases failed:"
                raise AssertionError("\n".join([summary, *lines])) from failures[0][1]

        parameters = inspect.signature(test).parameters
        test_all_cases.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter for name, parameter in parameters.items() if name not in arguments]
        )
        return test_all_cases

    return decorate
