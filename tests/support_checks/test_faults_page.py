"""`make faults` replaces one section of a page, and leaves what people wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "lab"))

from faults.report import END, START, with_section


def test_only_the_marked_section_is_replaced() -> None:
    page = f"# Title\n\nBefore.\n\n{START}\n\nold\n\n{END}\n\nAfter.\n"
    assert with_section(page, "new") == page.replace("old", "new")


@pytest.mark.parametrize("page", ["", "# Title\n"])
def test_a_page_without_a_marked_section_gets_one(page: str) -> None:
    result = with_section(page, "new")
    assert result.startswith(page)
    assert with_section(result, "newer") == result.replace("new", "newer")


def test_a_page_without_an_end_mark_stays_as_it_is() -> None:
    with pytest.raises(SystemExit, match="end of the latest run"):
        with_section(f"# Title\n{START}\nwritten by hand\n", "new")
