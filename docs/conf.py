"""How Sphinx makes the site of these pages: `make docs`.

The pages are CommonMark, as any viewer shows them. What only the site needs is made here: its
navigation, from the links of index.md, and the pages in `generated`.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import generate  # noqa: E402
import navigation  # noqa: E402

from polygraphy import __version__  # noqa: E402
from polygraphy.cli.help import describe_all  # noqa: E402
from polygraphy.cli.reference import list_of_pages  # noqa: E402

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx

project = "Polygraphy"
author = "The Polygraphy contributors"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "pictures"]
myst_heading_anchors = 4
nitpicky = True
default_role = "code"  # Docstrings write names as Markdown does.
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"Polygraphy {version}"

html_static_path = ["static", "pictures/terminal-light.svg", "pictures/terminal-dark.svg"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_search_scorer = str(FOLDER / "generated" / "scorer.js")
html_show_sphinx = False
html_copy_source = False
smartquotes = False  # It turns the hyphens of options into dashes.
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "github-dark"

_HEADING = re.compile(r"^## (.+)$", re.M)
_FILE = re.compile(r"^<!-- file: (.+) -->\n```(\w+)$", re.M)
_PICTURE = re.compile(r'(src(?:set)?=")pictures/')
_COMMAND = re.compile(r"\((generated/commands/.+)\.md\)$", re.M)
_ENTRY = re.compile(r"^- \[.*\]\((.+)\.md\)", re.M)


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the index a tree of contents for each of its headings: the pages that it links to."""
    if name != "index":
        return
    source[0] = _PICTURE.sub(r"\1_static/", source[0])
    _, *parts = _HEADING.split(source[0])
    for heading, text in zip(parts[::2], parts[1::2]):
        pages = _ENTRY.findall(text) + generate.PAGES.get(heading, [])
        tree = "\n".join((":hidden:", f":caption: {heading}", "", *pages))
        source[0] += f"\n```{{toctree}}\n{tree}\n```\n"


def split_reference(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the one page of all commands, as viewers of files show it, by a list of their pages.

    It has the same headings, so that links to a command on that page remain valid.
    """
    if name == "reference":
        text = list_of_pages(list(describe_all().values()), "generated/commands")
        tree = "\n".join((":hidden:", "", *_COMMAND.findall(text)))
        source[0] = f"{text}\n```{{toctree}}\n{tree}\n```\n"


def add_keywords(app: Sphinx, name: str, source: list[str]) -> None:
    """Give a page its keywords, which only the search of this site reads."""
    if keywords := generate.keywords_in(source[0]):
        words = ", ".join(keywords)
        source[0] = f'---\nmyst:\n  html_meta:\n    keywords: "{words}"\n---\n{source[0]}'


def add_captions(app: Sphinx, name: str, source: list[str]) -> None:
    """Give a block of code the name of the file that a comment above it says it is."""
    source[0] = _FILE.sub(r"```{code-block} \2\n:caption: \1\n", source[0])


def named(app: Sphinx, env: Any, node: Element, text: Element) -> Element | None:
    """Return the name of a type that has no page as it is written, as plain code.

    A name of the published modules is not let through: it has to be documented.
    """
    module, _, name = str(node.get("reftarget", "")).rpartition(".")
    published = module in generate.MODULES and name in import_module(module).__all__
    return None if node.get("refdomain") != "py" or published else text


def setup(app: Sphinx) -> None:
    """Add what this site needs."""
    generate.write(FOLDER)
    app.connect("source-read", add_navigation)
    app.connect("source-read", split_reference)
    app.connect("source-read", add_keywords)
    app.connect("source-read", add_captions)
    app.connect("missing-reference", named)
    navigation.connect(app)
