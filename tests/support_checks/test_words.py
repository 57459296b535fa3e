"""The prose of this package uses standard terms; how often it still does not may only go down.

See docs/development/words.md. Texts that transcripts of users pin are part of the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import polygraphy

ROOT = Path(polygraphy.__file__).parent
MOST = {
    "Tell whether": 0,  # Return whether
    "unless given": 0,  # (default: ...)
    "anew": 0,  # again
    "There is:": 1,  # Available: ...
    "is no command": 0,
    "likewise": 0,  # also
    "whoever": 0,  # callers that
    "told": 0,  # passed, reported
    "in the place of": 0,  # in place of
    "of late": 0,  # since, recently
    "in vain": 0,  # without effect
    "wish": 0,  # request
    "seat": 0,  # state
    "giver": 0,  # producer
    "taker": 0,  # consumer
    "heed": 0,  # respect
    "anybody": 6,  # a user, user code
    "somebody": 5,  # a caller, another process
    "nobody": 25,  # nothing, no caller
}
"""How often each is left at most, and what to write instead; lower a number where fewer are left."""


def texts() -> Iterator[str]:
    for suffix in ("py", "j2"):
        for path in ROOT.rglob(f"*.{suffix}"):
            if "compiled" not in path.parts:
                yield path.read_text(encoding="utf-8")


def uses(word: str, text: str) -> int:
    """Return how often a word stands in a text, over the ends of lines, too."""
    spaced = r"[\s\"#]+".join(map(re.escape, word.split()))
    return len(re.findall(rf"(?<!\w){spaced}(?!\w)", text, re.IGNORECASE))


@pytest.mark.parametrize("word", MOST)
def test_fewer_and_fewer(word: str) -> None:
    found = sum(uses(word, text) for text in texts())
    assert found <= MOST[word], f"{word!r}: write it in the words of docs/development/words.md"


def test_what_is_counted() -> None:
    assert (
        uses("unless given", 'one unless\n    given. 1 Unless given. "one unless"\n "given"') == 3
    )
    assert uses("told", "as told, untold, _told, told_of") == 1
