"""Which messages are logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.logger import G_LOGGER, SEVERITIES, Logger, SeverityTable
from polygraphy.logger.severity import letter_of, name_of

Capture = pytest.CaptureFixture[str]
HERE = Path(__file__).name


class TestSeverities:
    def test_scale(self) -> None:
        assert SEVERITIES == {
            "ULTRA_VERBOSE": -20,
            "SUPER_VERBOSE": -10,
            "EXTRA_VERBOSE": 0,
            "VERBOSE": 10,
            "INFO": 20,
            "START": 22,
            "FINISH": 28,
            "WARNING": 30,
            "ERROR": 40,
            "CRITICAL": 50,
        }
        assert all(getattr(G_LOGGER, name) == value for name, value in SEVERITIES.items())

    @pytest.mark.parametrize(
        ("severity", "letter", "name"),
        [(25, "I", "START"), (5, "X", "EXTRA_VERBOSE"), (99, "!", "CRITICAL"), (-99, "U", None)],
    )
    def test_those_in_between(self, severity: int, letter: str, name: str | None) -> None:
        assert letter_of(severity) == letter
        assert name_of(severity) == (name or "ULTRA_VERBOSE")

    @pytest.mark.parametrize(
        ("method", "letter"),
        [
            ("ultra_verbose", "U"),
            ("super_verbose", "S"),
            ("extra_verbose", "X"),
            ("verbose", "V"),
            ("info", "I"),
            ("start", "I"),
            ("finish", "I"),
            ("warning", "W"),
            ("error", "E"),
        ],
    )
    def test_each_method_has_a_severity(
        self, log: Logger, method: str, letter: str, capsys: Capture
    ) -> None:
        severity = SEVERITIES[method.upper()]
        log.module_severity = severity
        getattr(log, method)("message")
        log.module_severity = severity + 1
        getattr(log, method)("hidden")
        assert capsys.readouterr() == (f"[{letter}] message\n", "")

    def test_the_default_is_info(self, log: Logger, capsys: Capture) -> None:
        log.verbose("hidden")
        log.info("shown")
        assert capsys.readouterr().out == "[I] shown\n"


def paths() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(["a", "b", "c.py"]), min_size=1, max_size=4).map("/".join)


class TestSeverityTable:
    def test_one_severity_for_all(self) -> None:
        table = SeverityTable(7)
        assert (table.get(), table.get("backend/x.py")) == (7, 7)
        assert table.as_dict() == {"": 7}

    def test_the_nearest_configured_ancestor_counts(self) -> None:
        table = SeverityTable({"backend": 10, "backend/trt/loader.py": 0})
        assert table.get("backend/trt/loader.py") == 0
        assert table.get("backend/trt/runner.py") == 10
        assert table.get("backend") == 10
        assert table.get("backends/x.py") == 20
        assert table.get("comparator/compare.py") == 20

    @pytest.mark.parametrize("default", ["", None])
    def test_default(self, default: str | None) -> None:
        table = SeverityTable({default: 30, "backend": 10})
        assert (table.get(), table.get("x"), table.get("backend/x")) == (30, 30, 10)

    @pytest.mark.parametrize("path", ["backend/trt/", "./backend/trt", "backend\\trt"])
    def test_spelling_of_paths(self, path: str) -> None:
        assert SeverityTable({path: 10}).get("backend/trt/x.py") == 10

    @given(levels=st.dictionaries(paths(), st.integers(-20, 50)), path=paths())
    def test_longest_prefix(self, levels: dict[str, int], path: str) -> None:
        covering = [entry for entry in levels if f"{path}/".startswith(f"{entry}/")]
        expected = levels[max(covering, key=len)] if covering else 20
        table = SeverityTable(levels)
        assert table.get(path) == expected
        assert table.get(path) == expected  # From its cache.
        assert table.floor == min([20, *levels.values()])

    @pytest.mark.parametrize("levels", ["INFO", True, None, {"a": "INFO"}, {"a": 1.5}])
    def test_a_severity_is_an_integer(self, levels: Any) -> None:
        with pytest.raises((TypeError, AttributeError)):
            SeverityTable(levels)

    def test_equality(self) -> None:
        assert SeverityTable(20) == SeverityTable({"": 20}) == SeverityTable({})
        assert SeverityTable(20) != SeverityTable(30)
        assert hash(SeverityTable({"a": 1})) == hash(SeverityTable({"a/": 1}))
        assert SeverityTable(20) != 20


class TestModuleSeverity:
    def test_applies_to_the_file_that_logs(self, log: Logger, capsys: Capture) -> None:
        log.module_severity = {HERE: log.VERBOSE, "": log.ERROR}
        log.verbose("shown")
        log.extra_verbose("hidden")
        elsewhere = compile("log.warning('hidden'); log.error('shown too')", "/x/other.py", "exec")
        exec(elsewhere, {"log": log})
        assert capsys.readouterr().out == "[V] shown\n[E] shown too\n"

    def test_what_was_read_may_be_set(self, log: Logger) -> None:
        log.module_severity = {"backend": 10}
        saved = log.module_severity
        log.module_severity = 50
        log.module_severity = saved
        assert log.module_severity.get("backend/x.py") == 10

    def test_severity_is_the_default_alone(self, log: Logger) -> None:
        log.module_severity = {"backend": 10}
        assert log.severity == 20
        log.severity = 40
        assert log.severity == 40
        assert log.module_severity.get("backend/x.py") == 10

    def test_is_enabled_for(self, log: Logger) -> None:
        assert log.is_enabled_for(log.INFO)
        assert not log.is_enabled_for(log.VERBOSE)
        log.module_severity = {HERE: log.ERROR, "backend": log.VERBOSE}
        assert log.is_enabled_for(log.ERROR)
        assert not log.is_enabled_for(log.WARNING)
        elsewhere = eval(compile("log.is_enabled_for(20)", "/x/other.py", "eval"), {"log": log})
        assert elsewhere


class TestVerbosity:
    def test_silent_but_for_critical_messages(self, log: Logger, capsys: Capture) -> None:
        with log.verbosity():
            log.error("hidden")
            log.log("shown", log.CRITICAL)
        log.info("again")
        assert capsys.readouterr() == ("[I] again\n", "[!] shown\n")

    def test_nests(self, log: Logger) -> None:
        with log.verbosity(log.VERBOSE):
            with log.verbosity({"backend": log.ERROR}):
                assert log.severity == log.INFO
            assert log.severity == log.VERBOSE
        assert log.severity == log.INFO

    def test_ends_with_an_exception(self, log: Logger) -> None:
        with pytest.raises(ValueError, match="x"), log.verbosity():
            raise ValueError("x")
        assert log.severity == log.INFO

    def test_what_is_set_within_ends_with_it(self, log: Logger) -> None:
        with log.verbosity(log.ERROR):
            log.module_severity = log.VERBOSE
            assert log.is_enabled_for(log.VERBOSE)
        assert log.severity == log.INFO

    def test_overlapping_ones_leave_nothing_behind(self, log: Logger) -> None:
        first, second = log.verbosity(log.ERROR), log.verbosity(log.WARNING)
        first.__enter__()
        second.__enter__()
        first.__exit__()
        assert log.severity == log.WARNING
        second.__exit__()
        assert log.severity == log.INFO


class TestCallbacks:
    def test_called_at_once_and_at_each_change(self, log: Logger) -> None:
        seen: list[int] = []
        log.register_callback(lambda table: seen.append(table.get("backend/trt/x.py")))
        log.module_severity = 30
        log.module_severity = {"backend": 10}
        with log.verbosity():
            pass
        assert seen == [20, 30, 10, 50, 10]
        assert len(log.logger_callbacks) == 1
