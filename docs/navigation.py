"""The navigation of all pages, made once.

Sphinx and Furo make the tree of contents anew for each page, which takes a third of the time of the
site. Only the links and the marks of the current page differ.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from furo.navigation import get_navigation_tree
from sphinx.environment.adapters.toctree import global_toctree_for_doc

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_NO_PAGE = "genindex"
"""A page in the folder of the index which is not in the tree."""

_TAG = re.compile(r"<[^>]+>")
_LINK = re.compile(r'href="([^"#]+)\.html"')


class Navigation:
    """The tree of contents as tags and text, and which of them change on which page."""

    def __init__(self, app: Sphinx) -> None:
        """Make the tree of a page that is not in it."""
        assert app.builder is not None
        self._builder: Any = app.builder
        tree = global_toctree_for_doc(
            app.env, _NO_PAGE, self._builder, tags=app.tags,
            collapse=False, titles_only=True, maxdepth=-1, includehidden=True,
        )  # fmt: skip
        html = get_navigation_tree(self._builder.render_partial(tree)["fragment"])
        self._parts = [part for part in re.split(f"({_TAG.pattern})", html) if part]
        self._links: dict[int, str] = {}
        self._around: dict[str, list[int]] = {}
        above: list[int] = []
        page = ""
        for at, part in enumerate(self._parts):
            if part.startswith(("<ul", "<li")):
                above.append(at)
            elif part.startswith(("</ul", "</li")):
                while not self._parts[above.pop()].startswith(part.replace("/", "")[:3]):
                    pass
            elif part.startswith("<input"):
                above.append(at)
                self._around[page].append(at)
            elif link := _LINK.search(part):
                page = self._links[at] = link[1]
                self._around[page] = [*above, at]

    def tree_of(self, page: str) -> str:
        """Return the tree as it stands on a page."""
        parts = list(self._parts)
        for at, other in self._links.items():
            uri = "#" if other == page else self._builder.get_relative_uri(page, other)
            parts[at] = _LINK.sub(f'href="{uri}"', parts[at])
        around = self._around.get(page, [])
        for at in around:
            parts[at] = _mark(parts[at])
        for at in [at for at in around if parts[at].startswith("<li")][-1:]:
            parts[at] = parts[at].replace('">', ' current-page">')
        return "".join(parts)


def _mark(tag: str) -> str:
    """Return the tag of something that contains the current page, or is the link to it."""
    if tag.startswith("<ul"):
        return '<ul class="current">'
    if tag.startswith("<input"):
        return tag.replace(" class=", ' checked="" class=', 1)
    if tag.startswith("<li"):
        return re.sub(r"(toctree-l\d+)", r"\1 current", tag)
    return tag.replace('class="', 'class="current ', 1)


@cache
def _navigation(app: Sphinx) -> Navigation:
    return Navigation(app)


def _make_no_tree(app: Sphinx, name: str, _template: str, context: dict[str, Any], _: Any) -> None:
    context["toctree"] = lambda **_kwargs: ""


def _add_tree(app: Sphinx, name: str, _template: str, context: dict[str, Any], _: Any) -> None:
    context["furo_navigation_tree"] = _navigation(app).tree_of(name)


def connect(app: Sphinx) -> None:
    """Give Furo an empty tree, and its template the one that is made here."""
    app.connect("html-page-context", _make_no_tree, priority=400)
    app.connect("html-page-context", _add_tree, priority=600)
