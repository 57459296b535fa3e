"""The server of a page answers browsers on this machine only."""

from __future__ import annotations

import http.client
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from polygraphy.adapters.web.page import page_server
from polygraphy.domain.errors import UsageError
from tests.adapters.web.models import chain, save


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with page_server("<p>é</p>", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(
    port: int, path: str = "/", method: str = "GET", **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers={"Host": f"127.0.0.1:{port}", **named})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, answer.headers


def test_the_page_is_sent(port: int) -> None:
    status, body, headers = ask(port)
    assert (status, body.decode()) == (200, "<p>é</p>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert ask(port, Host=f"localhost:{port}")[0] == 200
    assert ask(port, method="HEAD")[:2] == (200, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_sites_are_refused(port: int, headers: dict[str, str]) -> None:
    status, body, _ = ask(port, **headers)
    assert status == 403
    assert b"<p>" not in body


def test_the_page_itself_may_ask_again(port: int) -> None:
    assert ask(port, Origin=f"http://127.0.0.1:{port}", Sec_Fetch_Site="same-origin")[0] == 200


def test_there_is_nothing_else(port: int) -> None:
    assert ask(port, "/../../etc/passwd")[0] == 404
    assert ask(port, "/?a=b")[0] == 200
    assert ask(port, method="POST")[0] == 501


def test_only_the_loopback_address_is_bound(port: int) -> None:
    with page_server("", 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_reported(port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="--visual-port"):
            page_server("", taken.getsockname()[1])
    with pytest.raises(UsageError, match="65535"):
        page_server("", 70_000)


def test_interrupting_ends_the_command(tmp_path: Path) -> None:
    model = save(chain(3), tmp_path / "model.onnx")
    words = ["inspect", "model", model, "--visual", "--visual-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "polygraphy", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for line in iter(process.stdout.readline, b""):
            if b"http://127.0.0.1:" in line:
                port = int(line.partition(b"http://127.0.0.1:")[2].partition(b"/")[0])
                break
        assert ask(port)[1].startswith(b"<!DOCTYPE html>")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"Traceback" not in output + errors


def test_a_connection_that_is_reset_is_nothing_to_tell(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    for request in (b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request)
            time.sleep(0.05)
            # Closing without lingering resets the connection.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.1)
    assert ask(port)[0] == 200
    captured = capfd.readouterr()
    assert "Traceback" not in captured.err and "Exception" not in captured.err
