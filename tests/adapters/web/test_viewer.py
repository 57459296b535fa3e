"""The viewer in a browser: moving around, searching, and looking at nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from attrs import evolve

from polygraphy.domain.accuracy.output_rows import WorstIteration
from polygraphy.inspect import draw_model
from tests.adapters.web.models import MARKUP, chain, nested, save
from tests.support.browsers import browser
from tests.support.helpers.report_rows import document, rows

__all__ = ["browser"]

_MANY = 20_000


class Opened:
    """A page in a browser, and what it complained about."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.tab = browser.new_page(viewport={"width": 1200, "height": 800})
        self.complaints: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", self._note_request)
        self.requests: list[str] = []
        self.tab.goto(path.as_uri())
        self.tab.wait_for_function("window.viewer.painter.drawn > 0")

    def _note_request(self, request: Any) -> None:
        self.requests.append(request.url)

    def __call__(self, script: str) -> Any:
        return self.tab.evaluate(script)

    def painted(self) -> int:
        """Return how many vertices are drawn when the canvas is painted again."""
        self("viewer.painter.paint(viewer.placed, viewer.view, viewer.chosen)")
        drawn: int = self("viewer.painter.drawn")
        return drawn

    def panel(self) -> str:
        text: str = self.tab.inner_text("#panel")
        return text


@pytest.fixture
def small(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    draw_model(save(nested(), tmp_path / "nested.onnx"), str(tmp_path / "page.html"), weights=True)
    opened = Opened(browser, tmp_path / "page.html")
    yield opened
    assert opened("window.pwned") is None
    assert opened.complaints == []
    assert opened.requests == [(tmp_path / "page.html").as_uri()]
    opened.tab.close()


def test_the_model_is_described_first(small: Opened) -> None:
    assert small.tab.title() == "nested.onnx"
    panel = small.panel()
    assert "nested.onnx" in panel
    assert "float32 [2]" in panel
    assert MARKUP.replace("\u2028", "") in panel.replace("\u2028", "").replace("\n", "")


def test_a_search_finds_nodes_in_every_graph(small: Opened) -> None:
    small.tab.fill("#search", "DEEP")
    small.tab.wait_for_selector(".results button")
    assert "2 found" in small.panel()
    small.tab.press("#search", "Enter")
    assert small("viewer.open.size") == 2
    assert "Abs" in small.panel()
    small.tab.press("#search", "Enter")
    assert "output of inner else" in small.panel()
    small.tab.press("#search", "Escape")
    assert "nested.onnx" in small.panel()


def test_a_node_shows_its_attributes_and_where_its_operands_come_from(small: Opened) -> None:
    small("viewer.search('call')")
    small.tab.click(".results button:has-text('Call')")
    assert "note" in small.panel()
    assert "(string)" in small.panel()
    small("viewer.search('first')")
    small.tab.click(".results button:has-text('Relu')")
    small.tab.click("#panel .link:has-text('x')")
    assert "input of" in small.panel()
    small(
        "viewer.search('then'); viewer.go(viewer.documented.graphs.findIndex((g) => g.title === 'then'), 0)"
    )
    assert "weight, float32 [20, 2], 160 bytes" in small.panel()
    assert "zeros: 0 of 40" in small.panel()
    assert "min: -1" in small.panel()


def test_graphs_open_where_they_are_and_close_again(small: Opened) -> None:
    closed = small("viewer.placed.height"), small.painted()
    small.tab.click("#open-all")
    opened = small("viewer.placed.height"), small.painted()
    assert opened > closed
    assert opened[1] > closed[1]
    small.tab.click("#close-all")
    assert (small("viewer.placed.height"), small.painted()) == closed


def test_opened_nodes_push_others_aside(small: Opened) -> None:
    small.tab.click("#open-all")
    overlaps = small("""(() => {
        const boxes = viewer.placed.boxes;
        const meet = (a, b) => a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3];
        return boxes.some((a, i) => boxes.some((b, j) => i < j && meet(a, b)));
    })()""")
    assert not overlaps


def test_a_click_chooses_a_node_and_its_sign_opens_it(small: Opened) -> None:
    place = "(() => { const v = viewer.documented.graphs[0].nodes.findIndex((n) => n[0] === 'outer') + 2;"
    box = small(
        f"{place} viewer.go(0, v); const b = boxes(v);".replace(
            "boxes(v)", "viewer.placed.boxes[v]"
        )
        + " const s = viewer.view; const c = viewer.canvas.getBoundingClientRect();"
        " return [c.x + (b[0] - s.x) * s.scale, c.y + (b[1] - s.y) * s.scale, b[2] * s.scale]; })()"
    )
    small("viewer.chosen = null")
    x, y, width = box
    small.tab.mouse.click(x + width / 2, y + 20)
    assert small("viewer.chosen !== null")
    assert small("viewer.open.size") == 0
    small.tab.mouse.click(x + width - 10, y + 10)
    assert small("viewer.open.size") == 1


def test_dragging_moves_and_the_wheel_zooms_about_the_mouse(small: Opened) -> None:
    before = small("({...viewer.view})")
    small.tab.mouse.move(400, 400)
    small.tab.mouse.down()
    small.tab.mouse.move(440, 430)
    small.tab.mouse.up()
    after = small("({...viewer.view})")
    assert (before["x"] - after["x"]) * after["scale"] == pytest.approx(40)
    assert (before["y"] - after["y"]) * after["scale"] == pytest.approx(30)
    rectangle = small(
        "(() => { const c = viewer.canvas.getBoundingClientRect(); return [c.x, c.y]; })()"
    )
    under = after["x"] + (440 - rectangle[0]) / after["scale"]
    small.tab.mouse.wheel(0, 300)
    small.tab.wait_for_function(f"viewer.view.scale < {after['scale']}")
    zoomed = small("({...viewer.view})")
    assert zoomed["x"] + (440 - rectangle[0]) / zoomed["scale"] == pytest.approx(under)
    small.tab.keyboard.press("f")
    assert small("viewer.view.scale * viewer.placed.height <= viewer.canvas.clientHeight")


def test_shapes_are_inferred_and_terms_are_standard(small: Opened) -> None:
    assert "IR version" in small.panel() and "Producer" in small.panel()
    small("viewer.search('first')")
    small.tab.click(".results button:has-text('Relu')")
    assert "Consumers" in small.panel().title()
    assert "unknown type" not in small.panel()


def test_the_graph_is_saved_as_a_picture(small: Opened, tmp_path: Path) -> None:
    small.tab.click("#open-all")
    drawn = small("viewer.placed.boxes.length")
    with small.tab.expect_download() as download:
        small.tab.click("#save-svg")
    download.value.save_as(tmp_path / "graph.svg")
    small.requests = small.requests[:1]  # The other is the picture itself.
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    titles = root.findall(".//{http://www.w3.org/2000/svg}title")
    assert len(titles) > drawn  # Those of inner graphs, too.
    assert not root.findall(".//{http://www.w3.org/2000/svg}script")


def test_nodes_are_colored_by_a_report_and_found_by_module(browser: Any, tmp_path: Path) -> None:
    model = chain(6)
    for index, node in enumerate(model.graph.node):
        node.name = f"/block{index // 3}/part/{node.name}"
    report = tmp_path / "r.json"
    outputs = [node.output[0] for node in model.graph.node]
    found = [
        evolve(row, name=name, worst=WorstIteration(0, 10.0 ** (index - 3)))
        for index, (row, name) in enumerate(zip(rows(6, 4), outputs))
    ]
    report.write_text(json.dumps(document(found).as_json()))
    draw_model(save(model, tmp_path / "m.onnx"), str(tmp_path / "page.html"), report=str(report))
    opened = Opened(browser, tmp_path / "page.html")
    levels = opened(
        "viewer.documented.graphs[0].nodes.map((n) => viewer.documented.errors[n[4][0]][0])"
    )
    assert levels[:4] == [0, 0, 0, 0] and 0 < levels[4] <= levels[5] == 4
    fills = opened("""viewer.documented.graphs[0].nodes.map(
        (node) => viewer.painter.shade(viewer.placed, { kind: "node", node }, undefined)[0]
    )""")
    assert len({fills[0], fills[5]}) == 2
    assert "block1" in opened.panel() and "2 failed" in opened.panel()
    assert "2 of 6" in opened.panel()
    off = opened("""(() => {
        const [, y, , height] = viewer.placed.boxes[viewer.documented.graphs[0].inputs.length + 4];
        return (y + Math.min(height, 200) / 2 - viewer.view.y) * viewer.view.scale - viewer.canvas.clientHeight / 2;
    })()""")
    assert abs(off) < 1  # What fails first is in the middle.
    opened.tab.click("dt:has-text('First to fail') + dd .link")
    assert model.graph.node[4].name in opened.panel() and "failed, max abs" in opened.panel()
    opened.tab.press("#search", "Escape")
    opened.tab.click(".modules summary:has-text('block1')")
    opened.tab.click(".modules .link:has-text('3 nodes') >> nth=-1")
    assert "/block1/part/" in opened.panel()
    assert "failed, max abs" in opened.panel() or "passed, max abs" in opened.panel()
    assert opened.complaints == []
    opened.tab.close()


def test_twenty_thousand_nodes_can_be_used(browser: Any, tmp_path: Path) -> None:
    start = time.perf_counter()
    draw_model(save(chain(_MANY), tmp_path / "long.onnx"), str(tmp_path / "page.html"))
    opened = Opened(browser, tmp_path / "page.html")
    assert time.perf_counter() - start < 20
    assert opened.painted() < 40  # Only what is visible.
    opened(f"viewer.search('node_{_MANY // 2}')")
    opened("viewer.step(1)")
    assert f"node_{_MANY // 2}" in opened.panel()
    assert opened.painted() < 40
    milliseconds = opened("""(() => {
        const start = performance.now();
        for (let i = 0; i < 20; i++) { viewer.view.y += 25; viewer.painter.paint(viewer.placed, viewer.view, viewer.chosen); }
        return (performance.now() - start) / 20;
    })()""")
    assert milliseconds < 50
    opened("viewer.fit()")
    assert 0 < opened.painted() <= 2 * 800
    assert opened("""(() => {  // In the middle there is something else than the background.
        const { width, height } = viewer.canvas;
        const { data } = viewer.painter.context.getImageData(0, Math.floor(height / 2), width, 1);
        const seen = (x) => data.slice(4 * x, 4 * x + 4).join();
        return seen(Math.floor(width / 2)) !== seen(2);
    })()""")
    assert opened.complaints == []
    opened.tab.close()
