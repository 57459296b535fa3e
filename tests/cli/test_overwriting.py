"""Programs that people edited are not lost; those that can be made again are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy.cli.main import main
from tests.support import models

COMMANDS = {
    "run": ["run", "m.onnx", "--onnxrt", "--gen-script"],
    "template": ["template", "onnx-gs", "m.onnx", "-o"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    models.save(models.identity(), tmp_path / "m.onnx")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_what_was_generated_is_replaced(words: list[str]) -> None:
    assert main([*words, "made.py"]) == 0
    before = Path("made.py").read_text()
    assert main([*words, "made.py"]) == 0
    assert Path("made.py").read_text() == before
    assert main([*words, "made.py", "-v"]) == 0
    assert "verbos" in Path("made.py").read_text().lower() and "verbos" not in before.lower()


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("change", ["\n# Mine.\n", "\n\n\n"])
def test_what_was_edited_stays(
    words: list[str], change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "made.py"]) == 0
    edited = Path("made.py").read_text() + change
    Path("made.py").write_text(edited)
    assert main([*words, "made.py"]) == 2
    assert "made.py exists and would be overwritten" in capsys.readouterr().err
    assert Path("made.py").read_text() == edited


OTHERS = {
    "bytes": b"\xff\x00",
    "text": b"notes",
    "program": b'"""Does things.\n\npolygraphy run\n"""\n',
    "no command": b'"""Does things.\n\npolygraphy nothing m.onnx\n"""\n',
    "open quote": b'"""Does things.\n\npolygraphy run \'m.onnx\n"""\n',
    "another tool": b'"""Does things.\n\npython run m.onnx --onnxrt\n"""\n',
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_what_is_no_program_of_ours_stays(content: bytes) -> None:
    Path("other").write_bytes(content)
    assert main([*COMMANDS["run"], "other"]) == 2
    assert Path("other").read_bytes() == content


def test_an_empty_file_and_a_device_hold_nothing() -> None:
    Path("empty.py").touch()
    assert main([*COMMANDS["run"], "empty.py"]) == 0
    assert Path("empty.py").stat().st_size > 0
    assert main([*COMMANDS["run"], "/dev/null"]) == 0
