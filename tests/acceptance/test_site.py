"""The site of the pages, as `make docs` left it: its search, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import browser

__all__ = ["browser"]

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"

pytestmark = pytest.mark.skipif(not SITE.exists(), reason="`make docs` has not been run")


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
        ("Windows", "install"),
        ("GPU different results", "how-to/gpu"),
        ("PyTorch export wrong", "how-to/exporting"),
        ("decoder", "how-to/steps"),
        ("int8 accuracy drop", "how-to/quantized"),
        ("quantization", "how-to/quantized"),
        ("CI tolerance", "how-to/tolerance"),
        ("quantisation", "how-to/quantized"),
        ("normalisation", "how-to/exporting"),
        ("optimisation", "how-to/find-the-layer"),
        ("colour", "how-to/images"),
        ("mismatch", "how-to/find-the-layer"),
        ("images flip", "how-to/samples"),
        ("smallest reproduction", "debugging"),
        ("polygraphy inspect model", "generated/commands/inspect-model"),
    ],
)
def test_the_search_finds_the_page_among_the_first_three(
    browser: Any, words: str, page: str
) -> None:
    tab = browser.new_page()
    tab.goto(f"{SITE.as_uri()}/search.html?q={words.replace(' ', '+')}")
    tab.wait_for_selector("ul.search > li", timeout=60_000)
    tab.wait_for_function("!document.querySelector('.search-summary').innerText.includes('...')")
    links = [each.get_attribute("href") for each in tab.query_selector_all("ul.search li > a")[:3]]
    tab.close()
    assert f"{page}.html" in [link.partition("?")[0].partition("#")[0] for link in links]


def test_blocks_of_code_have_the_name_of_their_file_and_a_button(browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto(f"{SITE.as_uri()}/tutorial.html")
    assert tab.inner_text(".code-block-caption .caption-text") == "net.py"
    assert tab.locator("button.copy").count() == tab.locator("div.highlight").count()
    session = tab.locator("div.highlight-console div.highlight").first
    tab.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    session.locator("button.copy").dispatch_event("click")
    tab.wait_for_function("window.copied")
    assert not tab.evaluate("window.copied").startswith("$ ")
    assert tab.evaluate("document.documentElement.scrollWidth") == 1400
    tab.close()


def test_links_to_a_command_on_the_page_of_all_commands_lead_to_its_own_page(browser: Any) -> None:
    tab = browser.new_page()
    tab.goto(f"{SITE.as_uri()}/reference.html#polygraphy-run")
    tab.click("#polygraphy-run a.internal")
    assert tab.url.endswith("/generated/commands/run.html")
    assert "--rtol" in tab.inner_text("article")
    tab.close()
