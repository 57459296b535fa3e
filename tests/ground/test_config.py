"""Settings are read from the environment when the module is imported."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import pytest

from polygraphy import config
from polygraphy.logger import logger as logger_module

_SWITCHES = (
    "INTERNAL_CORRECTNESS_CHECKS",
    "AUTOINSTALL_DEPS",
    "ASK_BEFORE_INSTALL",
    "USE_TENSORRT_RTX",
)
_OTHERS = ("INSTALL_CMD", "ARRAY_SWAP_THRESHOLD_MB", "EXIT_CODES")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*_SWITCHES, *_OTHERS):
        monkeypatch.delenv(f"POLYGRAPHY_{name}", raising=False)


def read_again() -> dict[str, Any]:
    return runpy.run_path(config.__file__)


def test_defaults() -> None:
    settings = read_again()
    assert {name: settings[name] for name in config.__all__} == {
        **dict.fromkeys(_SWITCHES, False),
        "INSTALL_CMD": [sys.executable, "-m", "pip", "install"],
        "ARRAY_SWAP_THRESHOLD_MB": -1,
        "EXIT_CODES": "",
    }


@pytest.mark.parametrize("name", _SWITCHES)
@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("no", True), ("", True), ("0", False)]
)
def test_switch_is_on_unless_zero(
    name: str, value: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"POLYGRAPHY_{name}", value)
    settings = read_again()
    assert settings[name] is expected
    assert not any(settings[other] for other in _SWITCHES if other != name)


def test_install_command_is_split_at_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGRAPHY_INSTALL_CMD", "  uv  pip install ")
    assert read_again()["INSTALL_CMD"] == ["uv", "pip", "install"]


def test_empty_install_command_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGRAPHY_INSTALL_CMD", " ")
    assert read_again()["INSTALL_CMD"] == [sys.executable, "-m", "pip", "install"]


@pytest.mark.parametrize(("value", "expected"), [("0", 0), ("16", 16), ("-3", -3)])
def test_swap_threshold(value: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB", value)
    assert read_again()["ARRAY_SWAP_THRESHOLD_MB"] == expected


def test_a_swap_threshold_is_said_to_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, count in (("-1", 0), ("16", 1)):
        monkeypatch.setenv("POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB", value)
        problems = read_again()["PROBLEMS"]
        assert len([each for each in problems if "has no effect" in each]) == count


def test_legacy_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGRAPHY_EXIT_CODES", "legacy")
    assert read_again()["EXIT_CODES"] == "legacy"


def test_the_console_shows_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGRAPHY_CONSOLE", "log")
    assert read_again()["CONSOLE"] == "log"


@pytest.mark.parametrize(
    ("name", "value", "default", "expected"),
    [
        ("ARRAY_SWAP_THRESHOLD_MB", "16M", -1, "an integer"),
        ("EXIT_CODES", "old", "", "one of '', 'legacy'"),
    ],
)
def test_malformed_value_is_ignored_with_a_warning(
    name: str,
    value: str,
    default: object,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"POLYGRAPHY_{name}", value)
    settings = read_again()
    assert settings[name] == default
    assert not capsys.readouterr().out
    (problem,) = settings["PROBLEMS"]
    monkeypatch.setattr(config, "PROBLEMS", [problem])
    runpy.run_path(logger_module.__file__)
    assert not config.PROBLEMS
    warning = capsys.readouterr().out
    assert warning.startswith(f"[W] POLYGRAPHY_{name}={value!r} in the environment is ignored")
    assert f"expected {expected}." in warning
