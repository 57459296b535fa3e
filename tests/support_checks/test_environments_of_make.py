"""The script that creates the environments of the Makefile follows pip, and falls back to it."""

from __future__ import annotations

import importlib.util
import stat
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "environment.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environment_of_make", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_uv_follows_the_configuration_of_pip(script: ModuleType) -> None:
    listing = r"""
:env:.find-links='/wheels /more'
:env:.default-timeout='180'
global.cert='/etc/certs.pem'
global.extra-index-url='https://one.example/simple\nfile:///two'
global.find-links='/lower'
global.index-url='https://default.example/simple'
install.pre='true'
install.no-index='no'
list.format='json'
"""
    options, variables = script.uv_options(script.read_settings(listing))
    pairs = list(pairwise(options))
    assert ("--default-index", "https://default.example/simple") in pairs
    assert [b for a, b in pairs if a == "--index"] == ["https://one.example/simple", "file:///two"]
    assert [b for a, b in pairs if a == "--find-links"] == ["/wheels", "/more"]
    assert ("--prerelease", "allow") in pairs
    assert "--no-index" not in options
    assert variables == {"SSL_CERT_FILE": "/etc/certs.pem", "UV_HTTP_TIMEOUT": "180"}


def test_a_setting_that_uv_lacks_is_left_to_pip(script: ModuleType) -> None:
    with pytest.raises(script.UnknownSetting, match="client-cert"):
        script.uv_options({"client-cert": "/a.pem"})


@pytest.mark.parametrize(
    ("fails", "calls"),
    [
        ((), ["uv preferred"]),
        (("uv preferred",), ["uv preferred", "uv"]),
        (("uv preferred", "uv"), ["uv preferred", "uv", "pip preferred"]),
    ],
)
def test_pip_installs_if_uv_fails(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...], calls: list[str]
) -> None:
    seen: list[str] = []

    def installer(name: str) -> object:
        def install(_folder: Path, requirements: list[str], _errors: int | None) -> bool:
            seen.append(f"{name} preferred" if "torch==1" in requirements else name)
            return seen[-1] not in fails

        return install

    monkeypatch.setattr(script, "install_with_uv", installer("uv"))
    monkeypatch.setattr(script, "install_with_pip", installer("pip"))
    assert script.main(["folder", ".[test]", "--prefer", "torch==1"]) == 0
    assert seen == calls


def test_a_uv_that_does_not_run_is_not_taken(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shim of pyenv is on the PATH for Pythons that lack the command, too."""
    shim = tmp_path / "uv"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(script, "UV_FOLDER", tmp_path / "none")
    monkeypatch.setattr(script.sys, "executable", str(tmp_path / "no-python"))
    assert script.find_uv() is None
