"""The site of the pages, as `make docs` left it: its search, in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

pytestmark = pytest.mark.skipif(not SITE.exists(), reason="`make docs` has not been run")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a browser without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="could not import 'playwright'")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_api.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"No Chromium can be started: {error}")
        yield started
        started.close()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("export wrong", "tutorial"),
        ("compare with PyTorch", "how-to/compare-with-pytorch"),
        ("NaN", "how-to/nan"),
        ("fp16 tolerance", "how-to/fp16"),
        ("which layer", "how-to/find-the-layer"),
        ("image input", "how-to/images"),
        ("pytest golden", "how-to/goldens-in-ci"),
        ("TensorRT without GPU", "how-to/tensorrt"),
        ("exit codes", "exit-codes"),
        ("NVIDIA compatibility", "how-to/from-nvidia"),
    ],
)
def test_the_search_finds_the_page_among_the_first_three(
    browser: Any, words: str, page: str
) -> None:
    tab = browser.new_page()
    tab.goto(f"{SITE.as_uri()}/search.html?q={words.replace(' ', '+')}")
    tab.wait_for_selector("ul.search > li:nth-child(3)", timeout=60_000)
    tab.wait_for_function("!document.querySelector('.search-summary').innerText.includes('...')")
    links = [each.get_attribute("href") for each in tab.query_selector_all("ul.search li > a")[:3]]
    tab.close()
    assert f"{page}.html" in [link.partition("?")[0].partition("#")[0] for link in links]
