"""Pages that show a model, each in one self-contained file.

Names in a model are not trusted, and may look like markup. So they are in the page as JSON only,
with every character escaped that could end a script, and the viewer writes them as text. With the
content security policy, the browser runs only the viewer.

The data of a page about its model, as JSON for `viewer/*.js`.

The document is kept small, because a model may have 20,000 nodes: lists stand for objects, and a
tensor is described once per graph.

Serves one page, only to browsers on this machine.

It listens on the loopback address only. A page of another site that the user has open could still
have the browser ask for it, under a host name that leads here (DNS rebinding) or from a script; so
a request must name this host, and an origin, where it names one, must be this server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf, isfinite, log10
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from polygraphy.domain.accuracy.output_rows import OutputRow, brief_value
from polygraphy.domain.arithmetic.summary import summarize
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model import Attribute, Graph, Model, Node, Tensor, Weight
from polygraphy.domain.model.drawing import GraphDrawing
from polygraphy.domain.model.statistics import ModelStatistics

_ADDRESS = "127.0.0.1"
# `Sec-Fetch-Site` of requests by the user, and by the page itself.
_SITES = ("none", "same-origin")


def serve_page(page: str, port: int, announce: Callable[[str], Any]) -> None:
    """Serve a page until the user interrupts; announce its address first.

    Raises:
        UsageError: the port is in use or invalid.
    """
    with page_server(page, port) as server:
        announce(f"http://{_ADDRESS}:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def page_server(page: str, port: int) -> ThreadingHTTPServer:
    """Return a listening server for a page; port 0 means any free port.

    Raises:
        UsageError: the port is in use or invalid.
    """
    content = page.encode()

    class Handler(_Handler):
        """The handler of requests for this page."""

        body = content

    try:
        server = _Server((_ADDRESS, port), Handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"The page cannot be served on port {port}: {reason.rstrip('.')}.",
            hint="Choose a different port with --visual-port; 0 means any free port.",
        ) from error
    return server


class _Server(ThreadingHTTPServer):
    """A server with a thread per request, which does not log lost connections."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore lost connections, because browsers close connections at any time."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    body = b""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Send the page."""
        self._answer(sends_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of the page."""
        self._answer(sends_body=False)

    def _answer(self, *, sends_body: bool) -> None:
        """Send the page, or an error for other paths and other machines."""
        if not self._is_local_request():
            self._send_response(
                HTTPStatus.FORBIDDEN, b"This page is for browsers on its own machine.\n"
            )
        elif self.path.partition("?")[0] != "/":
            self._send_response(HTTPStatus.NOT_FOUND, b"There is only one page: /\n")
        else:
            self._send_response(HTTPStatus.OK, self.body, "text/html", sends_body=sends_body)

    def _is_local_request(self) -> bool:
        """Return whether a request comes from a page of this server or from no page."""
        server = self.server
        assert isinstance(server, ThreadingHTTPServer)
        port = server.server_port
        hosts = {f"{name}:{port}" for name in (_ADDRESS, "localhost")}
        origin = self.headers.get("Origin")
        return (
            self.headers.get("Host", "") in hosts
            and (origin is None or origin in {f"http://{host}" for host in hosts})
            and self.headers.get("Sec-Fetch-Site", "none") in _SITES
        )

    def _send_response(
        self, status: HTTPStatus, body: bytes, kind: str = "text/plain", *, sends_body: bool = True
    ) -> None:
        """Send a response with its headers."""
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if sends_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing about requests."""


STEPS = 4
"""Levels from barely failed to worst; 0 is passed."""


def levels_of(rows: Mapping[str, OutputRow]) -> dict[str, tuple[int, str]]:
    """Return, by tensor, its error level from 0, and a phrase about the error."""
    failed = [_excess(row) for row in rows.values() if not row.passed]
    worst = max((excess for excess in failed if isfinite(excess)), default=1.0)
    return {name: (_level(row, worst), _words(row)) for name, row in rows.items()}


def _excess(row: OutputRow) -> float:
    """Return by how much the worst error exceeds the tolerance, as a factor."""
    return inf if row.worst.excess is None else row.worst.excess


def _level(row: OutputRow, worst: float) -> int:
    """Return the level of an error, on a logarithmic scale from 1 to `STEPS`; 0 if it passed."""
    if row.passed:
        return 0
    if not isfinite(_excess(row)):
        return STEPS
    share = log10(max(_excess(row), 1.0)) / log10(max(worst, 10.0))
    return max(1, min(STEPS, 1 + int(share * STEPS)))


def _words(row: OutputRow) -> str:
    """Return a phrase about the error of an output."""
    error = row.metrics.get("max_absdiff")
    if error is not None:
        return f"max abs {brief_value(float(error))}"
    return "passed" if row.passed else "differs"


# Limit for lists in attributes; the page shows the number of omitted elements.
_MOST_ELEMENTS = 200
_MOST_LETTERS = 2000


def page_data(
    model: Model,
    drawings: Sequence[GraphDrawing],
    statistics: ModelStatistics,
    errors: Mapping[str, OutputRow] | None = None,
) -> dict[str, Any]:
    """Return the data of a model page.

    Args:
        model: the details to show.
        drawings: its graphs, in the order of `polygraphy.domain.model.drawing.draw`.
        statistics: the statistics of its size.
        errors: the findings about tensors of the main graph, by name.
    """
    numbers = {id(drawing.graph): number for number, drawing in enumerate(drawings)}
    functions = {
        drawing.function: number for number, drawing in enumerate(drawings) if drawing.function
    }
    maker = _PageDataMaker(numbers, functions)
    return {
        "title": model.path.replace("\\", "/").rpartition("/")[2] or model.path,
        "facts": _facts(model, statistics),
        "ops": list(statistics.ops.items()),
        "errors": None if errors is None else levels_of(errors),
        "graphs": [maker.drawing(drawing) for drawing in drawings],
    }


def _facts(model: Model, statistics: ModelStatistics) -> list[list[str]]:
    """Return titles and texts about the whole model."""
    facts: dict[str, str] = {"Graph": model.graph.name}
    if model.opsets:
        facts["Opsets"] = ", ".join(
            f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items()
        )
    if model.ir_version:
        facts["IR version"] = str(model.ir_version)
    facts["Producer"] = model.producer
    facts["Nodes"] = f"{statistics.nodes:,}"
    facts["Parameters"] = f"{statistics.parameters:,} ({statistics.weight_bytes:,} bytes)"
    if statistics.macs and not statistics.macs_unknown:
        facts["Multiply-accumulate operations"] = f"{statistics.macs:,}"
    facts.update((f"Metadata: {key}", value) for key, value in model.metadata.items())
    facts["Description"] = model.graph.doc
    return [[title, text] for title, text in facts.items() if text]


class _PageDataMaker:
    """Converts drawings of graphs to lists for the script of the page."""

    def __init__(self, numbers: Mapping[int, int], functions: Mapping[Any, int]) -> None:
        """Set the numbers of the graphs and functions."""
        self._numbers = numbers
        self._functions = functions

    def drawing(self, drawing: GraphDrawing) -> dict[str, Any]:
        """Return a graph with the positions of its nodes and edges."""
        graph = drawing.graph
        title = ".".join(filter(None, drawing.function)) if drawing.function else graph.name
        return {
            "title": title,
            "parent": drawing.parent,
            "isFunction": drawing.function is not None,
            "inputs": [tensor.name for tensor in graph.inputs],
            "outputs": [tensor.name for tensor in graph.outputs],
            "nodes": [self._node(node) for node in graph.nodes],
            "tensors": _tensors(graph),
            "weights": {weight.name: _weight(weight) for weight in graph.weights},
            "wires": [
                [start, end, name, *bends]
                for (start, end, name), bends in zip(drawing.wires, drawing.layout.bends)
            ],
            "rows": drawing.layout.rows,
            "columns": drawing.layout.columns,
        }

    def _node(self, node: Node) -> list[Any]:
        """Return the data of one node: operator, tensors, attributes and subgraphs."""
        inside = [self._numbers[id(graph)] for graph in node.graphs]
        body = self._functions.get((node.domain, node.op))
        return [
            node.name,
            node.op,
            node.domain,
            node.inputs,
            node.outputs,
            [self._attribute(attribute) for attribute in node.attributes],
            inside if body is None else [*inside, body],
        ]

    def _attribute(self, attribute: Attribute) -> list[Any]:
        """Return name, kind and text of an attribute; graphs are drawn separately."""
        kind, value = attribute.kind, attribute.value
        if kind in ("graph", "graphs"):
            graphs = (value,) if kind == "graph" else value
            text = ", ".join(graph.name or "unnamed" for graph in graphs)
        elif kind == "tensor":
            return [attribute.name, kind, _weight(value)]
        elif kind == "tensors":
            return [attribute.name, kind, [_weight(item) for item in value]]
        else:
            text = _text(value)
        return [attribute.name, kind, text]


def _tensors(graph: Graph) -> dict[str, list[Any]]:
    """Return data types and shapes of tensors, by name."""
    tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in (*graph.inputs, *graph.outputs)}
    tensors.update(graph.tensors)
    return {
        name: [tensor.dtype, tensor.shape]
        for name, tensor in tensors.items()
        if tensor.dtype is not None or tensor.shape is not None
    }


def _weight(weight: Weight) -> list[Any]:
    """Return data type, shape, bytes, file and, if elements were read, statistics of a weight."""
    described: list[Any] = [weight.dtype, weight.shape, weight.nbytes, weight.location]
    if weight.values is not None:
        described.append(_statistics(np.asarray(weight.values)))
    return described


def _statistics(values: Any) -> list[list[str]]:
    """Return titles and texts about the elements of a weight."""
    if values.dtype.kind in "OSU" or not values.size:
        return [["elements", _text(values.ravel()[:_MOST_ELEMENTS].tolist())]]
    if values.size <= 16:
        return [["elements", _text(values.tolist())]]
    summary = summarize(values, quantiles=())
    shown_values = {
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "std": summary.std,
        "zeros": f"{summary.zeros:,} of {summary.size:,}",
        "NaN": summary.nan,
        "infinities": summary.posinf + summary.neginf,
    }
    return [[title, _text(value)] for title, value in shown_values.items() if value]


def _text(value: Any) -> str:
    """Return a value as readable text of limited length."""
    if isinstance(value, (list, tuple)):
        listed = ", ".join(map(_text, value[:_MOST_ELEMENTS]))
        extra = len(value) - _MOST_ELEMENTS
        return f"[{listed}{f', and {extra:,} more' if extra > 0 else ''}]"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    text = str(value)
    extra = len(text) - _MOST_LETTERS
    return text if extra <= 0 else f"{text[:_MOST_LETTERS]}... and {extra:,} more characters"


VIEWER = Path(__file__).parent / "viewer"
_SCRIPTS = ("placement.js", "painting.js", "drawing.js", "panel.js", "viewer.js")
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}


def model_page(
    model: Model,
    drawings: Sequence[GraphDrawing],
    statistics: ModelStatistics,
    errors: Mapping[str, OutputRow] | None = None,
) -> str:
    """Return a page with a viewer in JavaScript; see the port."""
    shown_document = page_data(model, drawings, statistics, errors)
    script = "\n".join(_read_asset(name) for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    style = _read_asset("viewer.css")
    environment = Environment(
        loader=FileSystemLoader(VIEWER), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html.j2").render(
        title=displayable_text(shown_document["title"]),
        policy=policy_of(script, style),
        style=style,
        script=script,
        document=json_for_script(shown_document),
    )


def json_for_script(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _read_asset(name: str) -> str:
    """Return the text of a file of the viewer."""
    return (VIEWER / name).read_text(encoding="utf-8")


def displayable_text(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates, as in file names, are replaced."""
    return text.encode("utf-8", "replace").decode()


def policy_of(script: str, style: str) -> str:
    """Return a content security policy that allows only this script and this style."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    """Return the SHA-256 digest of a text in the form of a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
