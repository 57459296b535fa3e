"""Serves one page to browsers on this machine, and to no other.

It listens on the loopback address only. A page of another site that the user has open could still
have the browser ask for it, under a host name that leads here (DNS rebinding) or from a script; so
a request must name this host, and an origin, where it names one, must be this server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from polygraphy.domain.errors import UsageError

_ADDRESS = "127.0.0.1"
_SITES = ("none", "same-origin")  # A browser says so of what the user opens, or the page itself.


def serve(page: str, port: int, announce: Callable[[str], Any]) -> None:
    """Serve a page until the user interrupts, after announcing its address.

    Raises:
        UsageError: the port is taken, or is none.
    """
    with page_server(page, port) as server:
        announce(f"http://{_ADDRESS}:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def page_server(page: str, port: int) -> ThreadingHTTPServer:
    """Return a server of a page that listens already; port 0 is any that is free.

    Raises:
        UsageError: the port is taken, or is none.
    """
    content = page.encode()

    class Handler(_Handler):
        body = content

    try:
        server = _Server((_ADDRESS, port), Handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"The page cannot be served on port {port}: {reason.rstrip('.')}.",
            hint="Choose another with --visual-port; 0 is any that is free.",
        ) from error
    return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing of a client that is gone: browsers close connections as they like."""
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
        if not self._is_from_here():
            self._send(HTTPStatus.FORBIDDEN, b"This page is for browsers on its own machine.\n")
        elif self.path.partition("?")[0] != "/":
            self._send(HTTPStatus.NOT_FOUND, b"There is only one page: /\n")
        else:
            self._send(HTTPStatus.OK, self.body, "text/html", sends_body=sends_body)

    def _is_from_here(self) -> bool:
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

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str = "text/plain", *, sends_body: bool = True
    ) -> None:
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
