"""The page of a verdict document in a browser: sorting, filtering, saving, by mouse and keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polygraphy.adapters.web.report_page import report_page
from tests.support.browsers import browser
from tests.support.helpers.report_rows import chain, document, profile_result, rows, sweep_document

__all__ = ["browser"]


@pytest.fixture(params=[(1600, "light"), (400, "dark")], ids=str)
def tab(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page with 600 rows, whose document is compressed."""
    path = tmp_path / "report.html"
    path.write_text(report_page(document(rows(600, 580)), chain(600)), encoding="utf-8")
    width, scheme = request.param
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(path.as_uri())
    yield tab
    assert complaints == []
    assert requests[:1] == [path.as_uri()]
    assert all(each.startswith("blob:") for each in requests[1:])
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


def names(tab: Any) -> list[str]:
    found: list[str] = tab.eval_on_selector_all(
        "table.outputs tbody tr:not([hidden])",
        "rows => rows.map((row) => row.cells[1].textContent)",
    )
    return [name.removeprefix("\u2717 ") for name in found]


def test_rows_are_sorted_and_filtered(tab: Any) -> None:
    assert names(tab)[:2] == ["t0", "t1"]
    tab.click("table.outputs th:nth-child(5) [role=button]")
    assert names(tab)[0] == "t599"  # The largest first.
    assert tab.get_attribute("table.outputs th:nth-child(5)", "aria-sort") == "descending"
    tab.click("table.outputs th:nth-child(5) [role=button]")
    assert names(tab)[0] == "t0"
    tab.press("table.outputs th:nth-child(2) [role=button]", "Enter")
    assert names(tab)[:3] == ["t0", "t1", "t10"]
    tab.check(".only-failed")
    assert len(names(tab)) == 20
    assert "20 of 600" in tab.inner_text(".tools")
    tab.keyboard.press("Escape")
    tab.evaluate("document.activeElement.blur()")
    tab.keyboard.press("/")
    tab.keyboard.type("t59")
    assert names(tab) == [f"t{index}" for index in range(590, 600)]


def test_a_point_of_the_chart_leads_to_its_row(tab: Any) -> None:
    tab.fill(".filter", "t1")
    tab.evaluate("location.hash = '#r0-599'")
    tab.wait_for_selector("#r0-599")
    tab.check("#m0-2")
    assert tab.is_visible(".chart-2") and not tab.is_visible(".chart-1")


def test_the_chart_is_as_wide_as_the_page(tab: Any) -> None:
    assert tab.evaluate(
        "() => { const chart = document.querySelector('.chart-1');"
        " return chart.scrollWidth <= chart.clientWidth; }"
    )


def test_the_document_is_saved(tab: Any, tmp_path: Path) -> None:
    with tab.expect_download() as download:
        tab.click("#save")
    download.value.save_as(tmp_path / "saved.json")
    saved = json.loads((tmp_path / "saved.json").read_text(encoding="utf-8"))
    assert saved["schema"] == 1 and len(saved["comparisons"][0]["outputs"]) == 600
    with tab.expect_download() as download:
        tab.click(".csv")
    download.value.save_as(tmp_path / "saved.csv")
    assert len((tmp_path / "saved.csv").read_text(encoding="utf-8").splitlines()) == 601


def test_the_first_that_failed_is_in_sight(tab: Any) -> None:
    seen = tab.evaluate("""() => {
          const box = document.querySelector(".tall").getBoundingClientRect();
          const row = document.getElementById("r0-580").getBoundingClientRect();
          return box.top < row.top && row.bottom < box.bottom;
        }""")
    assert seen


def test_a_keyboard_stops_at_the_first_that_failed_and_not_at_each_point(tab: Any) -> None:
    stops = tab.eval_on_selector_all(
        ".chart-1 a",
        "links => links.filter((each) => each.tabIndex >= 0).map((each) => each.href.baseVal)",
    )
    assert stops == ["#r0-580"]


def test_it_is_dark_on_a_screen_alone(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_page(document(rows(99, 90)), chain(99)), encoding="utf-8")
    tab = browser.new_page(color_scheme="dark")
    tab.goto(path.as_uri())
    front = "getComputedStyle(document.body).color"
    on_screen = tab.evaluate(front)
    tab.emulate_media(media="print")
    assert tab.evaluate(front) != on_screen
    assert tab.pdf().count(b"/Type /Page\n") > 1
    tab.close()


def test_it_is_printed_without_what_only_a_screen_needs(tab: Any) -> None:
    tab.emulate_media(media="print")
    assert not tab.is_visible("nav") and not tab.is_visible(".tools")
    assert tab.is_visible("table.outputs")
    tab.emulate_media(media="screen")


def test_nothing_is_lost_without_a_script(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_page(document(rows(9, 5)), chain(9)), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert tab.is_visible("table.outputs") and tab.is_visible(".chart-1")
    assert not tab.is_visible("#save") and not tab.is_visible(".copy")
    context.close()


def test_what_is_closed_is_printed_and_closed_again(tab: Any) -> None:
    count = "document.querySelectorAll('details:not([open])').length"
    tab.evaluate("document.body.append(document.createElement('details'))")
    closed = tab.evaluate(count)
    assert closed > 0
    tab.evaluate(f"addEventListener('beforeprint', () => {{ window.left = {count}; }})")
    assert tab.pdf()
    assert (tab.evaluate("window.left"), tab.evaluate(count)) == (0, closed)


def test_the_cells_of_a_sweep_are_filtered_and_sorted(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    path.write_text(report_page(sweep_document(10_000), None), encoding="utf-8")
    assert path.stat().st_size < 10e6
    tab = browser.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(path.as_uri())
    visible = "#cells tbody tr"
    assert tab.locator(visible).count() == 80
    tab.wait_for_selector("#cells .count:has-text('10000 of 10000')", state="attached")
    took = tab.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    assert took < 20_000  # Seconds where others run; benchmarks/sweep_cells.py measures it.
    tab.fill("#cells .filter", "model_7.onnx runner")
    tab.wait_for_selector("#cells .count:text-is('20 of 10000')")
    assert tab.locator(visible).count() == 20
    tab.check("#cells .only-failed")
    tab.wait_for_selector("#cells .count:text-is('1 of 10000')")
    assert tab.locator(visible).count() == 1
    tab.fill("#cells .filter", "")
    tab.uncheck("#cells .only-failed")
    tab.wait_for_selector("#cells .count:text-is('10000 of 10000')")
    assert tab.locator(visible).count() == 80
    tab.evaluate("document.querySelector('#cells .tall').scrollTop = 1e9")
    tab.wait_for_selector("#c81", state="attached")
    numbers = tab.locator(f"{visible} td:first-child").all_text_contents()
    assert numbers == list(map(str, range(1, len(numbers) + 1)))
    tab.click("#cells th:nth-child(7) [role=button]")
    tab.wait_for_selector(f"{visible}:first-child:has-text('model_499.onnx')", state="attached")
    with tab.expect_download() as download:
        tab.click("#cells .csv")
    download.value.save_as(tmp_path / "saved.csv")
    lines = (tmp_path / "saved.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 10_001
    assert lines[1].startswith('"10000","model_499.onnx","runner19","failed"')
    tab.click("#matrix tbody tr:nth-child(2) a >> nth=0")
    assert tab.is_visible("#c21")
    assert tab.get_attribute("#c21 a", "href") == f"plan.sweep/cells/00/{20:032x}.report.json"
    for _ in range(14):
        tab.evaluate("document.querySelector('#matrix .tall').scrollTop = 1e9")
        tab.wait_for_timeout(50)
    last = tab.locator("#matrix tbody tr").last
    assert (tab.locator("#matrix tbody tr").count(), last.locator("th").text_content()) == (
        500, "model_499.onnx",
    )  # fmt: skip
    assert last.locator("a").last.get_attribute("class") == "bad"
    last.locator("a").last.click()
    tab.wait_for_selector("#c10000")
    tab.evaluate("scrollTo(0, 0)")
    assert complaints == []
    tab.close()


def test_nodes_are_sorted_by_time_difference_and_error(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result = profile_result(2, [0.1, 0.3, 0.2, None])
    path.write_text(report_page(document([], results=[result]), None), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    orders = {}
    for column in (3, 4, 5, 6):
        tab.click(f"table.times th:nth-child({column}) [role=button]")
        cells = tab.locator("table.times tbody td:nth-child(2)")
        orders[column] = "".join(text[1] for text in cells.all_text_contents())
    assert orders == {3: "3210", 4: "0123", 5: "0123", 6: "1203"}
    tab.fill("#times .filter", "n2")
    assert "1 of 4" in tab.inner_text("#times .tools")
    tab.close()
