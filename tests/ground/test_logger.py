"""What the logger logs: its messages, how they look, and what they are said to come from."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import timeit
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import config
from polygraphy.exception import PolygraphyException, PolygraphyInternalException
from polygraphy.logger import G_LOGGER, SEVERITIES, Logger, LogMode, SeverityTable, was_logged
from polygraphy.logger import logger as logger_module
from polygraphy.logger.sinks import text_lines

Capture = pytest.CaptureFixture[str]
HERE = Path(__file__).name


def this_line() -> int:
    return sys._getframe(1).f_lineno


class TestText:
    def test_a_message_of_several_lines(self, log: Logger, capsys: Capture) -> None:
        log.info("==== ONNX Model ====\nName: test_identity\n\n---- 3 Node(s) ----")
        assert capsys.readouterr().out == (
            "[I] ==== ONNX Model ====\n    Name: test_identity\n    \n    ---- 3 Node(s) ----\n"
        )

    def test_one_line_break_at_the_end_is_dropped(self, log: Logger, capsys: Capture) -> None:
        log.info("a\n\n")
        assert capsys.readouterr().out == "[I] a\n    \n"

    def test_indentation_comes_after_the_tags(self, log: Logger, capsys: Capture) -> None:
        with log.indent():
            log.info("a\nb")
            with log.indent(2):
                log.warning("c\n\nd")
            log.info("e")
        log.info("f")
        assert capsys.readouterr().out == (
            "[I]     a\n        b\n"
            "[W]             c\n                \n                d\n"
            "[I]     e\n"
            "[I] f\n"
        )

    def test_indentation_ends_with_an_exception(self, log: Logger, capsys: Capture) -> None:
        with pytest.raises(ValueError, match="x"), log.indent():
            raise ValueError("x")
        log.info("a")
        assert capsys.readouterr().out == "[I] a\n"

    def test_indentation_belongs_to_its_thread(self, log: Logger, capsys: Capture) -> None:
        with log.indent():
            thread = threading.Thread(target=log.info, args=("of a thread",))
            thread.start()
            thread.join()
            log.info("of this thread")
        assert capsys.readouterr().out == "[I] of a thread\n[I]     of this thread\n"

    def test_all_tags(self, log: Logger, capsys: Capture) -> None:
        log.timestamp = log.line_info = True
        before = time.strftime("%H:%M:%S")
        log.info("a\nb")
        line = this_line() - 1
        after = time.strftime("%H:%M:%S")
        out = capsys.readouterr().out
        assert out in {f"[I] ({clock}) [{HERE}:{line}] a\n    b\n" for clock in (before, after)}
        assert re.match(r"\[I\] \(\d\d:\d\d:\d\d\) \[[\w/]+\.py:\d+\] a\n", out)

    def test_no_letter(self, log: Logger, capsys: Capture) -> None:
        log.letter = False
        log.info("a\nb")
        log.line_info = True
        log.info("c\nd")
        line = this_line() - 1
        assert capsys.readouterr().out == f"a\nb\n[{HERE}:{line}] c\n    d\n"

    def test_any_object_is_a_message(self, log: Logger, capsys: Capture) -> None:
        log.info(None)
        log.info(["x"])
        log.info("")
        assert capsys.readouterr().out == "[I] None\n[I] ['x']\n[I] \n"

    @given(
        lines=st.lists(st.text(st.characters(exclude_characters="\n")), min_size=1),
        depth=st.integers(0, 5),
        place=st.sampled_from(["", "a/b.py:3"]),
        letter=st.booleans(),
    )
    def test_nothing_but_tags_is_added(
        self, lines: list[str], depth: int, place: str, letter: bool
    ) -> None:
        message = "\n".join(lines) + "\n"
        text = text_lines(message, 20, depth=depth, place=place, letter=letter)
        head = ("[I] " if letter else "") + (f"[{place}] " if place else "")
        rest = "    " if head else ""
        indent = "    " * depth
        first, *others = text.split("\n")
        assert first == head + indent + lines[0]
        assert others == [rest + indent + line for line in lines[1:]]


class TestPlace:
    """Which source file and line a message is said to come from."""

    @pytest.fixture
    def place(self, log: Logger, capsys: Capture) -> Callable[[], tuple[str, int]]:
        log.line_info = True
        log.module_severity = G_LOGGER.ULTRA_VERBOSE

        def read() -> tuple[str, int]:
            captured = capsys.readouterr()
            match = re.match(r"\[.\] \[(.*):(\d+)\] ", captured.out + captured.err)
            assert match is not None
            return match[1], int(match[2])

        return read

    @pytest.mark.parametrize(
        "method",
        [name.lower() for name in SEVERITIES if name != "CRITICAL"],
    )
    def test_of_each_method(
        self, log: Logger, method: str, place: Callable[[], tuple[str, int]]
    ) -> None:
        getattr(log, method)("x")
        assert place() == (HERE, this_line() - 1)

    def test_of_critical(self, log: Logger, place: Callable[[], tuple[str, int]]) -> None:
        with pytest.raises(PolygraphyException):
            log.critical("x")
        assert place() == (HERE, this_line() - 1)

    def test_of_internal_error(
        self,
        log: Logger,
        place: Callable[[], tuple[str, int]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", True)
        with pytest.raises(PolygraphyInternalException):
            log.internal_error("x")
        assert place() == (HERE, this_line() - 1)

    def test_of_log(self, log: Logger, place: Callable[[], tuple[str, int]]) -> None:
        log.log("x", log.INFO)
        assert place() == (HERE, this_line() - 1)

    def test_of_module_info(self, log: Logger, place: Callable[[], tuple[str, int]]) -> None:
        log.module_info(json)
        assert place() == (HERE, this_line() - 1)

    def test_of_backtrace(self, log: Logger, place: Callable[[], tuple[str, int]]) -> None:
        log.backtrace()
        assert place() == (HERE, this_line() - 1)

    def test_of_log_exception(self, log: Logger, place: Callable[[], tuple[str, int]]) -> None:
        @log.log_exception
        def fail() -> None:
            raise ValueError("x")

        with pytest.raises(ValueError, match="x"):
            fail()
        assert place() == (HERE, this_line() - 1)

    def test_stack_depth_leads_outwards(
        self, log: Logger, place: Callable[[], tuple[str, int]]
    ) -> None:
        def helper(depth: int) -> None:
            log.log("x", log.INFO, stack_depth=depth)

        helper(2)
        assert place()[1] == helper.__code__.co_firstlineno + 1
        helper(3)
        assert place() == (HERE, this_line() - 1)
        helper(10_000)
        assert place()[1] > 0

    def test_a_file_of_the_package_is_relative_to_it(self) -> None:
        package = Path(config.__file__).parent
        path = str(package / "backend" / "trt" / "loader.py")
        assert G_LOGGER.module_path(path) == "backend/trt/loader.py"

    @pytest.mark.parametrize("path", ["/home/user/run.py", "run.py", "./a/run.py"])
    def test_a_file_elsewhere_is_its_name(self, path: str) -> None:
        assert G_LOGGER.module_path(path) == "run.py"


class TestJson:
    def test_one_object_per_line(self, log: Logger, capsys: Capture) -> None:
        log.json = True
        with log.indent():
            log.start('a\n"b" \u00e9')
        line = this_line() - 1
        out = capsys.readouterr().out
        assert out.endswith("\n")
        assert out.count("\n") == 1
        record = json.loads(out)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("time"))
        assert record == {
            "severity": "START",
            "module": HERE,
            "line": line,
            "message": 'a\n"b" \u00e9',
        }

    @pytest.mark.skipif(not hasattr(time, "tzset"), reason="needs time.tzset")
    def test_time_is_utc(
        self, log: Logger, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(time, "time", lambda: 1_700_000_000.5)
        log.json = True
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "EAST-5")
            time.tzset()
            log.info("x")
        time.tzset()
        assert json.loads(capsys.readouterr().out)["time"] == "2023-11-14T22:13:20.500Z"


class TestMessages:
    def test_callables_are_called_only_if_needed(self, log: Logger, capsys: Capture) -> None:
        calls: list[str] = []

        def message() -> str:
            calls.append("called")
            return "built"

        log.verbose(message)
        assert calls == []
        log.info(message)
        assert calls == ["called"]
        assert capsys.readouterr().out == "[I] built\n"

    def test_a_callable_that_fails(self, log: Logger, capsys: Capture) -> None:
        with pytest.raises(ZeroDivisionError):
            log.info(lambda: 1 // 0)
        log.log(lambda: 1 // 0, log.INFO, error_ok=True)
        out = capsys.readouterr().out
        assert out.startswith("[I] <Error while logging this message: ZeroDivisionError")

    def test_once(self, log: Logger, capsys: Capture) -> None:
        log.verbose("a", mode=LogMode.ONCE)
        for _ in range(2):
            log.info("a", mode=LogMode.ONCE)
            log.info(lambda: "b", LogMode.ONCE)
            log.info("c")
        assert capsys.readouterr().out == "[I] a\n[I] b\n[I] c\n[I] c\n"

    def test_once_for_all_threads(self, log: Logger, capsys: Capture) -> None:
        threads = [threading.Thread(target=log.info, args=("a", LogMode.ONCE)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert capsys.readouterr().out == "[I] a\n"

    def test_module_info(self, log: Logger, capsys: Capture) -> None:
        module = types.ModuleType("thing")
        module.__version__ = "1.2"  # type: ignore[attr-defined]
        module.__path__ = ["/lib/thing"]
        log.module_severity = log.VERBOSE
        log.module_info(module)
        log.module_info(module)
        log.module_info(module, name="other", severity=log.INFO)
        log.module_info(types.ModuleType("bare"))
        assert capsys.readouterr().out == (
            "[V] Loaded Module: thing | Version: 1.2 | Path: ['/lib/thing']\n"
            "[I] Loaded Module: other | Version: 1.2 | Path: ['/lib/thing']\n"
            "[V] Loaded Module: bare | Version: UNKNOWN | Path: ['UNKNOWN']\n"
        )

    def test_backtrace(self, log: Logger, capsys: Capture) -> None:
        def inner(depth: int, limit: int | None = None) -> None:
            log.backtrace(depth, limit, log.WARNING)

        def outer(depth: int, limit: int | None = None) -> None:
            inner(depth, limit)

        outer(0, 2)
        out = capsys.readouterr().out
        assert out.startswith("[W]   File ")
        assert re.findall(r"in (\w+)", out) == ["outer", "inner"]
        outer(1, 1)
        assert re.findall(r"in (\w+)", capsys.readouterr().out) == ["outer"]
        outer(10_000)
        assert capsys.readouterr().out.startswith("[W]   File ")
        log.module_severity = log.ERROR
        outer(0)
        assert capsys.readouterr().out == ""


class TestErrors:
    def test_critical_logs_and_raises(self, log: Logger, capsys: Capture) -> None:
        with pytest.raises(PolygraphyException, match=r"\Abad\nthing\Z") as raised:
            log.critical(lambda: "bad\nthing")
        assert capsys.readouterr() == ("", "[!] bad\n    thing\n")
        assert was_logged(raised.value)

    def test_another_class(self, log: Logger) -> None:
        with pytest.raises(ValueError, match=r"\Abad\Z"):
            log.exit("bad", ValueError)

    def test_the_class_is_looked_up_when_it_is_needed(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class StandInError(Exception):
            pass

        stand_in = types.ModuleType("stand_in")
        stand_in.StandInError = StandInError  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "stand_in", stand_in)
        monkeypatch.setattr("polygraphy.logger.errors.PUBLIC_ERROR", "stand_in:StandInError")
        with pytest.raises(StandInError):
            log.critical("bad")

    def test_internal_error_needs_internal_checks(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ) -> None:
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", False)
        log.internal_error("bad")
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", True)
        with pytest.raises(PolygraphyInternalException, match="bad"):
            log.internal_error("bad")
        assert capsys.readouterr().err == "[!] bad\n"

    def test_warnings_are_python_warnings_under_internal_checks(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ) -> None:
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", True)
        messages = iter(["careful"])
        with pytest.warns(UserWarning, match="careful") as caught:
            log.warning(lambda: next(messages))
        assert caught[0].filename == __file__
        assert capsys.readouterr().out == "[W] careful\n"

    def test_no_python_warnings_otherwise(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            log.warning("careful")

    def test_log_exception_logs_what_nobody_logged(self, log: Logger, capsys: Capture) -> None:
        @log.log_exception
        def fail(how: str) -> str:
            """Fail."""
            if how == "critically":
                log.critical("said")
            if how == "plainly":
                raise ValueError("unsaid")
            return how

        assert fail("not at all") == "not at all"
        assert fail.__doc__ == "Fail."
        with pytest.raises(PolygraphyException):
            fail("critically")
        assert capsys.readouterr() == ("", "[!] said\n")
        with pytest.raises(ValueError, match="unsaid"):
            log.log_exception(fail)("plainly")
        assert capsys.readouterr() == ("[E] ValueError: unsaid\n", "")

    def test_an_error_that_nobody_logged(self) -> None:
        assert not was_logged(ValueError("x"))


class TestState:
    def test_restores_everything(self, log: Logger, tmp_path: Path, capsys: Capture) -> None:
        first, second = tmp_path / "first.log", tmp_path / "second.log"
        log.log_file = first
        log.module_severity = {"backend": 10}
        log.info("once", mode=LogMode.ONCE)
        state = log.state()
        log.letter = log.colors = False
        log.timestamp = log.line_info = log.json = log.use_python_logging_system = True
        log.register_callback(lambda table: None)
        log.log_file = second
        log.module_severity = 50
        file_set_since = log._file
        for _ in range(2):
            log.restore(state)
            log.info("once", mode=LogMode.ONCE)
            log.info("again")
        assert log.module_severity == SeverityTable({"backend": 10})
        assert log.logger_callbacks == []
        assert capsys.readouterr().out == "[I] once\n[I] again\n[I] again\n"
        assert first.read_text() == "[I] once\n[I] again\n[I] again\n"
        assert second.read_text() == ""
        assert file_set_since is not None
        assert file_set_since._stream is None

    def test_preserved(self, log: Logger) -> None:
        with log.preserve():
            log.module_severity = 50
            log.letter = False
        assert log.severity == 20
        assert log.letter


class TestCost:
    def test_a_hidden_message_does_not_look_at_the_stack(
        self, log: Logger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def forbidden(*_args: object) -> None:
            raise AssertionError("looked at the stack")

        monkeypatch.setattr("polygraphy.logger.logger.caller_frame", forbidden)
        monkeypatch.setattr(logger_module, "caller_frame", forbidden)
        log.verbose("x")
        assert not log.is_enabled_for(log.VERBOSE)
        log.info("A shown one does not, either, unless its place is shown.")
        log.line_info = True
        with pytest.raises(AssertionError, match="stack"):
            log.info("x")

    def test_a_hidden_message_costs_less_than_a_microsecond(self, log: Logger) -> None:
        number = 10_000
        timer = timeit.Timer("verbose('x')", globals={"verbose": log.verbose})
        assert min(timer.repeat(20, number)) / number < 1e-6
