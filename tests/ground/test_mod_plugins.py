"""Entry points are found without importing what they name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from polygraphy.mod.plugins import are_installed, entry_points_of, package_of
from tests.support.distributions import install

GROUP = "polygraphy.tests"
ROOT = str(Path(__file__).resolve().parents[2])


def test_nothing_is_found_where_nothing_is_installed() -> None:
    assert entry_points_of(GROUP) == []
    assert not are_installed(GROUP)


def test_what_is_installed_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, {GROUP: {"b": "not_there:B", "a": "json:dumps"}, "others": {"c": "x:y"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert are_installed(GROUP)
    found = entry_points_of(GROUP)
    assert [(plugin.name, plugin.value, package_of(plugin)) for plugin in found] == [
        ("a", "json:dumps", "mine 1.0"),
        ("b", "not_there:B", "mine 1.0"),
    ]
    assert found[0].load()([1]) == "[1]"
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        found[1].load()


def test_of_two_with_the_same_name_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("second", "first"):
        install(tmp_path / name, {GROUP: {"a": f"{name}:A"}}, name=name)
        monkeypatch.syspath_prepend(str(tmp_path / name))
    assert [plugin.value for plugin in entry_points_of(GROUP)] == ["first:A"]


def test_what_cannot_be_read_is_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-1.0.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "b-1.0.dist-info").write_bytes(b"")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "missing"))
    assert entry_points_of(GROUP) == []


def test_a_name_within_a_module_may_have_dots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, {GROUP: {"a": "pathlib : Path.exists"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    (plugin,) = entry_points_of(GROUP)
    assert plugin.load() is Path.exists and plugin.module == "pathlib"


def test_looking_in_vain_imports_nothing_costly() -> None:
    program = (
        f"import sys; sys.path.append({ROOT!r})\n"
        "from polygraphy.mod.plugins import entry_points_of; entry_points_of('polygraphy.tests')\n"
        "print('importlib.metadata' in sys.modules, 'attr' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
