"""Templates of a working tree are compiled once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from polygraphy.codegen.render import BytecodeBeside


class Counting(Environment):
    """Counts how often a template is compiled."""

    compiled = 0

    def compile(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.compiled += 1
        return super().compile(*args, **kwargs)


def compiled_anew(folder: Path, text: str = "{{ 1 }}", compiler: str = "") -> bool:
    """Render a template; tell whether it was compiled for that."""
    module = folder / "module.py"
    module.write_text(compiler)
    made = Counting(loader=DictLoader({"a": text}), bytecode_cache=BytecodeBeside(folder, [module]))
    assert made.get_template("a").render() == "1"
    return made.compiled > 0


@pytest.fixture(autouse=True)
def writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def test_a_template_is_compiled_once(tmp_path: Path) -> None:
    assert compiled_anew(tmp_path)
    assert not compiled_anew(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["__pycache__"]


def test_it_is_compiled_anew_when_it_or_its_compiler_changes(tmp_path: Path) -> None:
    assert compiled_anew(tmp_path)
    assert compiled_anew(tmp_path, "{{ 2 - 1 }}")
    assert compiled_anew(tmp_path, "{{ 2 - 1 }}", "changed")


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    assert compiled_anew(tmp_path)
    [kept] = (tmp_path / "__pycache__").iterdir()
    kept.write_bytes(kept.read_bytes()[:20])
    assert compiled_anew(tmp_path)
    assert not compiled_anew(tmp_path)


def test_nothing_is_kept_where_python_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__pycache__").write_text("a file, where no folder can be made")
    assert compiled_anew(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "__pycache__").unlink()
    assert compiled_anew(tmp_path)
    assert not (tmp_path / "__pycache__").exists()
