"""Where log lines go."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import config
from polygraphy.exception import PolygraphyException
from polygraphy.logger import G_LOGGER, SEVERITIES, Logger
from polygraphy.logger.severity import level_of

Capture = pytest.CaptureFixture[str]
HERE = Path(__file__).name


class Stream(io.StringIO):
    """A stream that may say that it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def terminal(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Make standard output a terminal (in the test itself: pytest sets it between the phases)."""
    stream = Stream(terminal=True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def this_line() -> int:
    return sys._getframe(1).f_lineno


class TestConsole:
    def test_only_critical_messages_go_to_standard_error(
        self, log: Logger, capsys: Capture
    ) -> None:
        log.error("a")
        log.log("b", log.CRITICAL)
        assert capsys.readouterr() == ("[E] a\n", "[!] b\n")

    def test_colors_on_a_terminal(self, log: Logger, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = terminal(monkeypatch)
        log.error("a\nb")
        log.info("plain")
        assert stream.getvalue() == "\x1b[31m[E] a\n    b\x1b[0m\n[I] plain\n"

    def test_no_colors_if_asked(self, log: Logger, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = terminal(monkeypatch)
        log.colors = False
        log.error("a")
        assert stream.getvalue() == "[E] a\n"

    @pytest.mark.parametrize(
        ("variable", "value", "colored"),
        [("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False)],
    )
    def test_environment(
        self,
        log: Logger,
        monkeypatch: pytest.MonkeyPatch,
        variable: str,
        value: str,
        colored: bool,
    ) -> None:
        stream = terminal(monkeypatch)
        monkeypatch.setenv(variable, value)
        log.error("a")
        assert ("\x1b" in stream.getvalue()) is colored

    def test_no_colors_elsewhere(self, log: Logger, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = Stream(terminal=False)
        monkeypatch.setattr(sys, "stdout", stream)
        log.error("a")
        assert stream.getvalue() == "[E] a\n"

    def test_json_is_never_colored(self, log: Logger, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = terminal(monkeypatch)
        log.json = True
        log.error("x")
        assert json.loads(stream.getvalue())["severity"] == "ERROR"

    def test_what_cannot_be_encoded_is_escaped(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
        log.info("caf\u00e9 \ud800")
        assert raw.getvalue() == b"[I] caf\\xe9 \\ud800\n"

    def test_no_stream(self, log: Logger, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        log.info("a")
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, "stdout", closed)
        log.info("a")

    def test_lines_are_not_held_back(self, log: Logger, monkeypatch: pytest.MonkeyPatch) -> None:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw), "utf-8"))
        log.info("a")
        assert raw.getvalue() == b"[I] a\n"

    def test_a_reader_that_goes_away_is_no_error(self) -> None:
        script = (
            "from polygraphy.logger import G_LOGGER\n"
            "for i in range(20000): G_LOGGER.info('x' * 100)\n"
            "G_LOGGER.log('at the end', G_LOGGER.CRITICAL)\n"
            "print('also after')\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(config.__file__).parents[1])},
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith("[I] xxx")
            process.stdout.close()
            assert process.stderr.read() == "[!] at the end\n"
            assert process.wait() == 0

    def test_another_error_is_not_hidden(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Full(io.StringIO):
            def write(self, _text: str) -> int:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(sys, "stdout", Full())
        with pytest.raises(OSError, match="No space"):
            log.info("a")

    def test_messages_of_threads_do_not_mix(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pieces: list[str] = []

        class Slow(io.StringIO):
            def write(self, text: str) -> int:
                for char in text:
                    pieces.append(char)
                    time.sleep(0)
                return len(text)

        monkeypatch.setattr(sys, "stdout", Slow())

        def log_often(i: int) -> None:
            for _ in range(20):
                log.info(str(i) * 20)

        threads = [threading.Thread(target=log_often, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = "".join(pieces).splitlines()
        assert sorted(lines) == sorted(f"[I] {str(i) * 20}" for i in range(4) for _ in range(20))


class TestLogFile:
    def test_holds_the_same_text_without_colors(
        self, log: Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "new" / "folder" / "debug.log"
        terminal(monkeypatch)
        log.log_file = str(path)
        assert log.log_file == str(path)
        log.error("a\nb \u00e9")
        log.log("\x1b[1;32mgreen\x1b[0m", log.CRITICAL)
        assert path.read_text("utf-8") == "[E] a\n    b \u00e9\n[!] green\n"

    def test_is_emptied_when_set_and_appended_to_then(self, log: Logger, tmp_path: Path) -> None:
        path = tmp_path / "debug.log"
        path.write_text("old")
        log.log_file = path
        assert path.read_text() == ""
        log.info("a")
        log.info("b")
        assert path.read_text() == "[I] a\n[I] b\n"

    def test_none_closes_it(self, log: Logger, tmp_path: Path) -> None:
        path = tmp_path / "debug.log"
        log.log_file = path
        log.info("a")
        log.log_file = None
        log.info("b")
        assert log.log_file is None
        assert path.read_text() == "[I] a\n"

    def test_hidden_messages_are_not_in_it(self, log: Logger, tmp_path: Path) -> None:
        log.log_file = tmp_path / "debug.log"
        log.verbose("a")
        assert (tmp_path / "debug.log").read_text() == ""

    def test_lines_of_another_writer_survive(self, log: Logger, tmp_path: Path) -> None:
        path = tmp_path / "debug.log"
        log.log_file = path
        log.info("a")
        with path.open("a") as other:
            other.write("of a child process\n")
        log.info("b")
        assert path.read_text() == "[I] a\nof a child process\n[I] b\n"

    def test_a_file_that_cannot_be_created(self, log: Logger, tmp_path: Path) -> None:
        with pytest.raises(
            PolygraphyException, match=r"Could not create the log file .*: Is a dir"
        ):
            log.log_file = tmp_path
        assert log.log_file is None

    @pytest.mark.parametrize("shown", ["[I] a\n", ""])
    def test_a_file_that_cannot_be_written(self, log: Logger, capsys: Capture, shown: str) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("needs /dev/full")
        log.log_file = "/dev/full"
        log.console_gate = None if shown else lambda lines: []
        log.info("a")
        assert capsys.readouterr().out == (
            f"{shown}[W] Could not write to the log file '/dev/full': No space left on device\n"
        )
        assert log.log_file is None

    def test_unencodable_text(self, log: Logger, tmp_path: Path) -> None:
        log.log_file = tmp_path / "debug.log"
        log.info("\ud800")
        assert (tmp_path / "debug.log").read_text() == "[I] \\ud800\n"


class TestPythonLogging:
    def test_records_take_the_place_of_the_console(
        self, log: Logger, caplog: pytest.LogCaptureFixture, capsys: Capture, tmp_path: Path
    ) -> None:
        log.use_python_logging_system = True
        log.module_severity = log.ULTRA_VERBOSE
        log.log_file = tmp_path / "debug.log"
        with caplog.at_level(1, "Polygraphy"):
            for severity in SEVERITIES.values():
                log.log("100% {x}\ny", severity)
            line = this_line() - 1
        assert [record.levelno for record in caplog.records] == [
            2, 4, 6, 10, 20, 22, 28, 30, 40, 50
        ]  # fmt: skip
        record = caplog.records[0]
        assert (record.name, record.getMessage()) == ("Polygraphy", "[U] 100% {x}\n    y")
        assert (record.pathname, record.lineno) == (__file__, line)
        assert record.funcName == "test_records_take_the_place_of_the_console"
        assert capsys.readouterr() == ("", "")
        assert (tmp_path / "debug.log").read_text().startswith("[U] 100% {x}\n    y\n[S] ")

    @given(st.integers(-60, 60), st.integers(-60, 60))
    def test_levels_keep_the_order_of_severities(self, one: int, other: int) -> None:
        assert level_of(one) > 0 and (one > other or level_of(one) <= level_of(other))

    def test_the_level_of_the_python_logger_counts(
        self, log: Logger, caplog: pytest.LogCaptureFixture
    ) -> None:
        log.use_python_logging_system = True
        with caplog.at_level(logging.ERROR, "Polygraphy"):
            log.warning("hidden")
        assert caplog.records == []


class Writes(io.StringIO):
    """A stream that tells its writes apart, and may be interrupted in one of them."""

    def __init__(self, interrupted: int = -1) -> None:
        super().__init__()
        self.writes: list[str] = []
        self._interrupted = interrupted

    def write(self, text: str) -> int:
        if len(self.writes) == self._interrupted:
            self._interrupted = -1
            raise KeyboardInterrupt
        self.writes.append(text)
        return len(text)


def standard_output(monkeypatch: pytest.MonkeyPatch) -> Writes:
    stream = Writes()
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


class TestTogether:
    def test_lines_are_written_at_once(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        out = standard_output(monkeypatch)
        log.log_file = tmp_path / "log"
        with log.together():
            log.info("a\nb")
            log.error("c")
            assert out.writes == []
        assert out.writes == ["[I] a\n    b\n[E] c\n"]
        assert (tmp_path / "log").read_text() == out.writes[0]
        log.info("d")
        assert out.writes[1:] == ["[I] d\n"]

    def test_both_streams_keep_their_order(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        both = Writes()
        monkeypatch.setattr(sys, "stdout", both)
        monkeypatch.setattr(sys, "stderr", both)
        with log.together():
            for severity in (log.INFO, log.ERROR, log.CRITICAL, log.INFO):
                log.log("x", severity)
        assert both.writes == ["[I] x\n[E] x\n", "[!] x\n", "[I] x\n"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
    def test_written_when_an_exception_ends_it(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
    ) -> None:
        out = standard_output(monkeypatch)
        with pytest.raises(error), log.together():
            log.info("a")
            raise error
        assert out.writes == ["[I] a\n"]

    def test_ctrl_c_in_the_middle_of_writing_loses_nothing(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = Writes(interrupted=0)
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(KeyboardInterrupt), log.together():
            log.info("a")
            log.info("b")
        assert out.writes == ["[I] a\n[I] b\n"]

    def test_lines_of_other_threads_keep_their_order(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = standard_output(monkeypatch)
        with log.together():
            log.info("first")
            thread = threading.Thread(target=log.info, args=("second",))
            thread.start()
            thread.join()
            log.info("third")
        assert "".join(out.writes) == "[I] first\n[I] second\n[I] third\n"

    def test_nested_ones_hold_nothing_back_for_longer(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = standard_output(monkeypatch)
        with log.together():
            log.info("a")
            with log.together():
                log.info("b")
            assert out.writes == ["[I] a\n[I] b\n"]
            log.info("c")
        assert out.writes[1:] == ["[I] c\n"]

    def test_what_cannot_be_written_is_not_tried_again(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Full(io.StringIO):
            def write(self, _text: str) -> int:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(sys, "stdout", Full())
        with pytest.raises(OSError, match="No space"), log.together():
            log.info("a")
        out = Writes()
        monkeypatch.setattr(sys, "stdout", out)
        log.info("b")
        assert out.writes == ["[I] b\n"]

    def test_other_files_and_handlers_come_in_their_turn(
        self,
        log: Logger,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        out = standard_output(monkeypatch)
        log.log_file = tmp_path / "first"
        with log.together():
            log.info("a")
            log.log_file = tmp_path / "second"
            log.info("b")
            log.use_python_logging_system = True
            log.error("c")
            assert out.writes == ["[I] a\n", "[I] b\n"]
        log.log_file = None
        assert (tmp_path / "first").read_text() == "[I] a\n"
        assert (tmp_path / "second").read_text() == "[I] b\n[E] c\n"
        assert [record.message for record in caplog.records] == ["[E] c"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_child_writes_its_own_lines_only(self, capfd: Capture) -> None:
        with G_LOGGER.together():
            G_LOGGER.info("from the parent")
            child = os.fork()
            if child == 0:
                G_LOGGER.info("from the child")
                os._exit(0)
            os.waitpid(child, 0)
        assert capfd.readouterr().out == "[I] from the child\n[I] from the parent\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_inherit_a_lock_that_another_thread_holds(capfd: Capture) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with G_LOGGER._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        G_LOGGER.info("from the child")
        os._exit(0)
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child waits for the lock")
        assert status == 0
    finally:
        release.set()
        thread.join()
