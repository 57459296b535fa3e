"""Pages: one file, what the model consists of, and nothing that a name could do."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.web.page import json_for_script
from polygraphy.inspect import draw_model
from tests.adapters.web.models import MARKUP, MARKUP_NAME, nested, save

NAME, OP, _, INPUTS, _, ATTRIBUTES, INSIDE = range(7)


class Elements(HTMLParser):
    """Collects the elements of a page, and what is in scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._at = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._at = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.texts[self._at] = self.texts.get(self._at, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._at = ""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    # A file name may look like markup, too; it has no slash.
    model = save(nested(), folder / f"{MARKUP.replace('/', '')[:60]}.onnx")
    draw_model(model, str(folder / "page.html"), weights=True)
    return (folder / "page.html").read_text(encoding="utf-8")


def document_of(page: str) -> Any:
    return json.loads(Elements(page).texts["document"])


def test_names_of_a_model_make_no_elements(page: str) -> None:
    tags = [tag for tag, _ in Elements(page).elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert "window.pwned" not in page.replace("\\u003c", "<").partition("<script>")[2]


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    for tag, attributes in Elements(page).elements:
        assert not attributes.keys() & {"src", "href", "action", "style", "onclick"}, tag
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")  # A name, no place.
    assert "https://" not in page


def test_only_the_viewer_may_run(page: str) -> None:
    found = Elements(page)
    [policy] = [
        attributes["content"]
        for tag, attributes in found.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    digest = base64.b64encode(hashlib.sha256(found.texts["script"].encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_every_graph_is_in_the_page(page: str) -> None:
    graphs = document_of(page)["graphs"]
    titles = [graph["title"] for graph in graphs]
    assert titles[0] == MARKUP
    assert sorted(titles[1:]) == ["else", "inner else", "inner then", "own.Call", "then"]
    outer = next(node for node in graphs[0]["nodes"] if node[NAME] == "outer")
    assert sorted(titles[inside] for inside in outer[INSIDE]) == ["else", "then"]
    call = next(node for node in graphs[0]["nodes"] if node[NAME] == "call")
    assert [titles[inside] for inside in call[INSIDE]] == ["own.Call"]
    assert graphs[titles.index("inner else")]["parent"] == titles.index("else")


def test_attributes_types_and_weights_are_in_the_page(page: str) -> None:
    documented = document_of(page)
    graph = documented["graphs"][0]
    call = next(node for node in graph["nodes"] if node[NAME] == "call")
    assert call[ATTRIBUTES] == [["note", "string", MARKUP]]
    assert call[INPUTS] == [MARKUP_NAME]
    assert graph["tensors"]["x"] == ["float32", [2]]
    dtype, shape, nbytes, file, statistics = graph["weights"]["w"]
    assert (dtype, shape, nbytes, file) == ("float32", [20, 2], 160, None)
    assert ["min", "-1"] in statistics
    assert ["max", "1"] in statistics
    assert [f"Metadata: {MARKUP}", MARKUP] in documented["facts"]
    assert ["If", 2] in documented["ops"]


def test_a_node_is_connected_to_what_the_graphs_in_it_take(page: str) -> None:
    graph = document_of(page)["graphs"][0]
    outer = next(i for i, node in enumerate(graph["nodes"]) if node[NAME] == "outer")
    taken = {wire[2] for wire in graph["wires"] if wire[1] == len(graph["inputs"]) + outer}
    assert taken == {"c", "x"}


def test_weights_are_not_read_unless_asked_for(tmp_path: Path) -> None:
    model = save(nested(), tmp_path / "model.onnx")
    draw_model(model, str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert document_of(page)["graphs"][0]["weights"]["w"] == ["float32", [20, 2], 160, None]


@given(st.text())
def test_any_text_is_embedded_as_it_is(text: str) -> None:
    made = json_for_script({text: [text]})
    assert json.loads(made) == {text: [text]}
    assert not set(made) & set("<>&\u2028\u2029")
    assert made.isascii()
