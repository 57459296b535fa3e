"""The tests that use packages which only `make test-all` has are known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import extra_packages


def item(path: Path, marker: Any = None, fixtures: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(path=path, fixturenames=fixtures, get_closest_marker=lambda name: marker)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('torch = pytest.importorskip("torch")', True),
        ("def test():\n    import tensorflow as tf\n", True),
        ("from keras import layers", True),
        ('sync = pytest.importorskip("playwright.sync_api")', True),
        ('if mod.has_mod("tensorrt_rtx"):', True),
        ('mod.lazy_import("torch>=2.2")', True),
        ("def test_torches() -> None:  # torch\n", False),
        ('name = "torchlight"', False),
        ('pytest.importorskip("onnx_graphsurgeon")', False),
    ],
)
def test_a_module_that_names_a_package_uses_it(tmp_path: Path, text: str, expected: bool) -> None:
    path = tmp_path / "test_one.py"
    path.write_text(text)
    assert extra_packages.uses_extra(item(path)) is expected


def test_a_fixture_may_use_a_package(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("")
    assert extra_packages.uses_extra(item(tmp_path / "test_one.py", fixtures=("rtx",)))


@pytest.mark.parametrize("marker", [None, pytest.mark.extra])
def test_a_test_that_nobody_would_run_is_found(marker: Any) -> None:
    skipped = item(Path("test_one.py"), marker)
    reason = (
        "('tests/test_one.py', 3, \"Skipped: could not import 'torch': No module named 'torch'\")"
    )
    assert extra_packages.lacks_marker(skipped, reason) is (marker is None)
    assert not extra_packages.lacks_marker(skipped, "Skipped: could not import 'matplotlib'")
    assert not extra_packages.lacks_marker(skipped, "Skipped: no GPU")


def test_what_is_installed_is_described() -> None:
    reported = extra_packages.installed()
    assert all(name in reported for name in ("tensorflow", "torch", "playwright", "tensorrt_rtx"))


def test_a_run_of_extra_tests_collects_the_modules_with_one(tmp_path: Path) -> None:
    texts = {
        "package": 'torch = pytest.importorskip("torch")',
        "marker": "@pytest.mark.extra\ndef test_it(): ...",
        "fixture": "def test_it(browser): ...",
        "none": "import onnx\ndef test_it(): ...",
    }
    collected = set()
    for name, text in texts.items():
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
        if extra_packages.may_use_extra(tmp_path / f"test_{name}.py"):
            collected.add(name)
    assert collected == {"package", "marker", "fixture"}
