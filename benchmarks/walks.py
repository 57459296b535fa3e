"""How much of the package a command enters, and how much of it a value passes through.

    python benchmarks/walks.py   # the table of docs/development/benchmarks.md
    python benchmarks/walks.py run model.onnx --onnxrt      # one command: its functions

Counts the named functions of the package (no lambdas, comprehensions or bodies of classes and
modules) that are called in the process of the command, imports included, and the files that they
stand in. A marked value enters a function that is handed it as an argument: the text, the path or
the number, by itself or in a list, a tuple or a dictionary; `--fp16`, whose value is True, is
followed by its name. For Python 3.11, as other versions call comprehensions differently, and for
an installed package, whose templates and help are compiled.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import CodeType, FrameType

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"
RUN = ("run", "digits.onnx", "--onnxrt", "--onnx")
DIAGNOSE = ("diagnose", "digits_changed.onnx", "--onnxrt", "--reference", "digits.onnx")
BUDGET = ("--memory-budget", "123456789")

# Rows of the table: a command, and its word in bold.
WALKS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    (RUN, None),
    ((*RUN, "--gen-script", "-"), None),
    (DIAGNOSE, None),
    ((*RUN, "--rtol", "0.0123"), "0.0123"),
    (RUN, "digits.onnx"),
    ((*RUN, "--layerwise", *BUDGET), BUDGET[1]),
    (("run", "digits.onnx", "--trt", "--fp16", "--gen-script", "-"), "--fp16"),
    (DIAGNOSE, "digits_changed.onnx"),
    ((*DIAGNOSE, *BUDGET), BUDGET[1]),
)

_FUNCTION = 0x1  # The flag CO_OPTIMIZED, which bodies of classes and modules lack.
_STARS = 0x4, 0x8  # The flags CO_VARARGS and CO_VARKEYWORDS, with one more argument each.


class Mark:
    """Tells whether the arguments of a call hold a value."""

    def __init__(self, word: str) -> None:
        """Read the value to look for from a word."""
        self.word = word
        self.number = float(word) if word[0].isdigit() else None
        self.name = word[2:].replace("-", "_") if word.startswith("--") else None

    def is_in(self, frame: FrameType) -> bool:
        """Return whether an argument of a starting function contains the value."""
        code, values = frame.f_code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        count += sum(bool(code.co_flags & star) for star in _STARS)
        arguments = {name: values[name] for name in code.co_varnames[:count] if name in values}
        return any(
            self._is(value) for part in (arguments, *arguments.values()) for value in _items(part)
        )

    def _is(self, item: tuple[object, object]) -> bool:
        """Return whether a named item is the value."""
        key, value = item
        if self.name is not None and key == self.name and value is True:
            return True
        if type(value) is float or type(value) is int:
            return value == self.number
        if type(value) is str or isinstance(value, PurePath):
            return value == self.word or str(value).endswith(f"/{self.word}")
        return False


def _items(value: object) -> Iterator[tuple[object, object]]:
    """Yield the items of a container with their keys or indices."""
    if type(value) is dict:
        yield from list(value.items())
    elif type(value) is list or type(value) is tuple:
        yield from enumerate(value)


class Walk:
    """The functions of the package that are called: what `sys.setprofile` calls."""

    def __init__(self, folder: str, mark: Mark | None) -> None:
        """Start without functions, for the files in a folder."""
        self.folder = folder
        self.mark = mark
        # Keys are identities, because code objects with the same content are equal.
        self.entered: dict[int, CodeType] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a function that is entered."""
        code = frame.f_code
        if event != "call" or id(code) in self.entered or not self._counts(code):
            return
        if self.mark is None or self.mark.is_in(frame):
            self.entered[id(code)] = code

    def _counts(self, code: CodeType) -> bool:
        """Return whether a function has a name and is in the folder."""
        named = bool(code.co_flags & _FUNCTION) and not code.co_name.startswith("<")
        return named and code.co_filename.startswith(self.folder)


def package() -> Path:
    """Return the folder of the installed package."""
    spec = importlib.util.find_spec("polygraphy")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def trace(output: str, word: str, words: list[str]) -> None:
    """Run a command in this process, and write the entered files and functions."""
    walk = Walk(f"{package()}/", Mark(word) if word else None)
    sys.argv = ["polygraphy", *words]
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        from polygraphy.cli.main import main as command

        command()
    finally:  # The command raises SystemExit.
        sys.setprofile(None)
        names = sorted((code.co_filename, code.co_qualname) for code in walk.entered.values())
        Path(output).write_text(json.dumps(names), encoding="utf-8")


def functions_entered(words: tuple[str, ...], mark: str | None = None) -> list[tuple[str, str]]:
    """Return the file and name of each function that a command enters."""
    with tempfile.TemporaryDirectory() as folder:
        for model in DIGITS.glob("*.onnx"):
            shutil.copy(model, folder)
        output = Path(folder) / "walk.json"
        tracing = [sys.executable, "-P", __file__, "--trace", str(output), mark or ""]
        ran = subprocess.run(
            [*tracing, *words], check=False, cwd=folder, capture_output=True, text=True
        )
        if ran.returncode not in (0, 1) or not output.exists():
            raise SystemExit(f"{' '.join(words)} did not work:\n{ran.stdout}{ran.stderr}")
        return [(file, name) for file, name in json.loads(output.read_text(encoding="utf-8"))]


def main() -> None:
    """Print the number of files and functions that commands enter."""
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("Figures are compared on Python 3.11; this is another version.")
    if sys.argv[1:2] == ["--trace"]:
        trace(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1:]:
        for file, name in functions_entered(tuple(sys.argv[1:])):
            print(Path(file).relative_to(package()), name)
    else:
        print("| command | marked | files | functions |")
        print("| --- | --- | ---: | ---: |")
        for words, mark in WALKS:
            names = functions_entered(words, mark)
            files = len({file for file, _name in names})
            shown = f"`{mark}`" if mark else ""
            print(f"| `{' '.join(words)}` | {shown} | {files} | {len(names)} |")


if __name__ == "__main__":
    main()
