"""Backends of other packages: found, checked, and harmless when they are broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from polygraphy.cli.completion import completion_script
from polygraphy.cli.main import main
from polygraphy.datatype import DataType
from polygraphy.exception import DataTypeConversionException
from polygraphy.mod.plugins import BACKENDS, DATA_TYPES
from tests.support.distributions import BACKEND, install

PARTIAL = """
{%- macro runner(options, model, is_path) -%}
{{ use("my_backend", "MyRunner") }}({{ arguments(model, level=options.level, whole=is_path) }})
{%- endmacro -%}
"""
PLAIN = PARTIAL.replace("level=options.level, ", "")
WITH_OPTIONS = """
from attrs import frozen
from polygraphy.extension import Backend, Integer, Options, option

@frozen
class MyOptions(Options):
    '''Mine: how --mine runs.'''

    level: int | None = option("--mine-level", kind=Integer(0), help="How much.")

BACKEND = Backend(title="Mine", help="Runs it in Mine.", options=MyOptions)
"""

Install = Callable[..., None]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a backend, by default ``mine``, until the test ends."""

    def installed(
        text: str = WITH_OPTIONS,
        partial: str = PARTIAL,
        names: Mapping[str, str] | None = None,
    ) -> None:
        points = names or {"mine": "my_backend.plugin:BACKEND"}
        modules = {
            "my_backend/__init__.py": "",
            "my_backend/plugin.py": text,
            "my_backend/runner.py.j2": partial,
        }
        monkeypatch.syspath_prepend(str(install(tmp_path / "site", {BACKENDS: points}, modules)))

    yield installed
    for name in [name for name in sys.modules if name.startswith("my_backend")]:
        del sys.modules[name]


def program(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["run", *words, "--gen-script", "-"]) == 0
    return capsys.readouterr().out


def test_a_program_uses_the_backend(mine: Install, capsys: pytest.CaptureFixture[str]) -> None:
    mine()
    text = program("m.onnx", "--mine", "--onnxrt", "--mine-level", "3", capsys=capsys)
    assert '"""Compare m.onnx in Mine and ONNX Runtime.' in text
    assert "from my_backend import MyRunner\n" in text
    assert "        MyRunner(MODEL, level=3, whole=True),\n        OnnxrtRunner(" in text


def test_a_runner_of_it_may_have_a_name(mine: Install, capsys: pytest.CaptureFixture[str]) -> None:
    mine()
    words = ["--runner", "a=--mine --mine-level 3", "--runner", "b=--onnxrt", "--mine"]
    text = program("m.onnx", *words, capsys=capsys)
    assert '"""Compare m.onnx in a (Mine), b (ONNX Runtime) and Mine.' in text
    assert '    runners[0].name = "a"\n' in text
    assert "MyRunner(MODEL, level=3, whole=True),\n        OnnxrtRunner(" in text


CALLED = WITH_OPTIONS.replace("options=MyOptions)", "options=MyOptions, runner='my_backend:Make')")


def test_a_backend_without_a_partial_is_called_with_its_options(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(CALLED, partial="{% what nobody reads %}")
    text = program("m.onnx", "--mine", "--onnxrt", "--mine-level", "3", capsys=capsys)
    assert '"""Compare m.onnx in Mine and ONNX Runtime.' in text
    assert "from my_backend import Make\n" in text
    assert "        Make(MODEL, level=3),\n        OnnxrtRunner(" in text


def test_such_a_backend_is_called_without_options_that_were_not_given(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(CALLED, partial="")
    text = program("m.onnx", "--mine", "--onnx-outputs", "*", capsys=capsys)
    assert "runners = [Make(load_model)]" in text


@pytest.mark.parametrize("runner", ["my_backend", "my_backend:", "a b:c", "os:system('x')", "é:f"])
def test_what_cannot_be_called_is_named(
    mine: Install, capsys: pytest.CaptureFixture[str], runner: str
) -> None:
    mine(CALLED.replace("'my_backend:Make'", repr(runner)))
    assert main(["run", "m.onnx", "--mine", "--gen-script", "-"]) == 3
    assert "is not of the form package.module:Name" in capsys.readouterr().err


def test_the_backend_gets_the_model_as_it_was_changed(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine()
    alone = program("m.onnx", "--mine", "--onnx-outputs", "*", capsys=capsys)
    assert "MyRunner(load_model, whole=False)" in alone
    beside = program("m.onnx", "--mine", "--mine", "--onnx-outputs", "*", capsys=capsys)
    assert beside.count("MyRunner(model, whole=False),") == 2


def test_a_backend_for_other_models_gets_the_path(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(BACKEND.replace('help="Runs it."', 'help="Runs it.", model_types=()'), PLAIN)
    assert "MyRunner(MODEL, whole=True)" in program("m.xyz", "--mine", capsys=capsys)
    assert main(["run", "m.onnx", "--mine", "--onnx-outputs", "a", "--gen-script", "-"]) == 2
    assert "no selected runner loads the ONNX model" in capsys.readouterr().err


def test_a_model_that_it_cannot_run_is_refused(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine()
    assert main(["run", "m.plan", "--mine"]) == 2
    assert "m.plan is a model of type engine, which --mine cannot run" in capsys.readouterr().err


def test_help_and_completion_list_it(mine: Install, capsys: pytest.CaptureFixture[str]) -> None:
    mine()
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "  --mine                  Runs it in Mine.\n" in shown
    assert "Mine: how --mine runs.\n  --mine-level N          How much.\n" in shown
    assert " --mine " in completion_script("bash")
    assert ' --mine-level"' in completion_script("bash")


def test_its_options_ask_for_its_flag(mine: Install, capsys: pytest.CaptureFixture[str]) -> None:
    mine()
    assert main(["run", "m.onnx", "--onnxrt", "--mine-level=3"]) == 2
    assert "--mine-level=3 requires --mine." in capsys.readouterr().err


def test_a_wrong_value_is_reported_as_for_any_option(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine()
    assert main(["run", "m.onnx", "--mine", "--mine-level", "-1"]) == 2
    assert "argument --mine-level: -1 is less than 0." in capsys.readouterr().err


def test_a_name_with_an_underscore_is_a_flag_with_a_dash(
    mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(BACKEND, PLAIN, {"of_mine": "my_backend.plugin:BACKEND"})
    assert "MyRunner(MODEL, whole=True)" in program("m.onnx", "--of-mine", capsys=capsys)


def test_text_of_the_user_stays_data(mine: Install, capsys: pytest.CaptureFixture[str]) -> None:
    text = WITH_OPTIONS.replace("Integer(0)", "Text()").replace("Backend, Integer", "Backend, Text")
    mine(text)
    hostile = '"); import os #'
    assert f"MyRunner(MODEL, level={hostile!r}, whole=True)" in program(
        "m.onnx", "--mine", "--mine-level", hostile, capsys=capsys
    )


@pytest.mark.slow
def test_what_nobody_uses_is_not_imported(mine: Install, tmp_path: Path) -> None:
    mine("raise SystemExit('imported')")
    words = ["run", "m.onnx", "--onnxrt", "--gen-script", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "polygraphy", *words],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "OnnxrtRunner" in done.stdout


BROKEN = {
    "raises": ({"text": "raise ImportError('no such library')"}, "ImportError: no such library."),
    "lacks it": ({"text": ""}, "has no attribute 'BACKEND'."),
    "another thing": ({"text": "BACKEND = 3"}, "it is an int, not a polygraphy.extension.Backend."),
    "no partial": (
        {"text": BACKEND.replace('help="Runs it."', 'help="Runs it.", partial="no.j2"')},
        "No such file",
    ),
    "taken option": (
        {"text": WITH_OPTIONS.replace("--mine-level", "--seed")},
        "--seed already has a different meaning.",
    ),
    "no options": (
        {"text": BACKEND.replace('help="Runs it."', 'help="Runs it.", options=dict')},
        "its options are not an attrs class",
    ),
    "no kind": (
        {"text": WITH_OPTIONS.replace("kind=Integer(0)", "kind=float")},
        "the kind of its option level is <class 'float'>, not an object such as Number().",
    ),
    "no sentence": ({"text": BACKEND.replace("Runs it.", "Runs it")}, "must end with a period"),
    "no package": (
        {"names": {"mine": "json:dumps"}, "text": ""},
        "it is a function, not a polygraphy.extension.Backend.",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_backend_is_named_and_breaks_nothing(
    case: str, mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    how, reason = BROKEN[case]
    mine(**how)
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr()
    assert "--onnxrt" in shown.out
    assert "--mine" not in shown.out
    assert "[W] the backend 'mine' of the package mine 1.0 cannot be used: " in shown.err
    assert reason in shown.err
    assert main(["run", "m.onnx", "--onnxrt", "--gen-script", "-"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["run", "m.onnx", "--mine", "--gen-script", "-"]) == 3
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Mine", "m!", "-x", "onnxrt", "trt_engine", "seed"])
def test_a_name_that_is_no_flag_of_its_own_is_refused(
    name: str, mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(names={name: "my_backend.plugin:BACKEND"})
    assert main(["run", "--help"]) == 0
    assert f"[W] the backend {name!r} of the package mine 1.0" in capsys.readouterr().err
    assert "OnnxrtRunner" in program("m.onnx", "--onnxrt", "--seed", "3", capsys=capsys)


@pytest.mark.parametrize(
    "partial",
    [
        "{% macro runner(options) %}{% endmacro %}",
        "{% macro runner(options, model, is_path) %}{{ is_path ~ 'text' }}{% endmacro %}",
        "{% macro runner(options, model, is_path) %}{{ missing }}{% endmacro %}",
        "{% macro runner(options, model, is_path) %}]({% endmacro %}",
        "{% macro %}",
        "",
    ],
)
def test_a_broken_partial_is_reported_in_a_line(
    partial: str, mine: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(partial=partial)
    assert main(["run", "m.onnx", "--mine"]) == 3
    said = capsys.readouterr().err
    assert "the package mine 1.0 adds invalid code to the program: " in said
    assert "Traceback" not in said


CONVERTER = """
class Names:
    def to_native(self, entry):
        return entry.name.upper() if entry.is_floating else None

    def from_native(self, dtype):
        from polygraphy.datatype import DataType
        return DataType.__members__.get(dtype)
"""


def test_a_package_has_names_for_data_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {DATA_TYPES: {"mine": "my_names:Names"}}
    monkeypatch.syspath_prepend(str(install(tmp_path, points, {"my_names.py": CONVERTER})))
    assert DataType.to_dtype(DataType.FLOAT16, "mine") == "FLOAT16"
    assert DataType.from_dtype("FLOAT16", "mine") is DataType.FLOAT16
    with pytest.raises(DataTypeConversionException, match="mine has no data type int8"):
        DataType.to_dtype(DataType.INT8, "mine")
    with pytest.raises(DataTypeConversionException, match="'theirs' are unknown"):
        DataType.to_dtype(DataType.INT8, "theirs")


def test_packages_that_extend_another_command_line_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "m.onnx", "--onnxrt", "--gen-script", "-"]
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    groups = {"polygraphy.run.plugins": {"a": "theirs:A", "b": "theirs:B"}}
    monkeypatch.syspath_prepend(str(install(tmp_path, groups, name="theirs")))
    assert main(words) == 0
    assert capsys.readouterr().err == (
        "[W] theirs 1.0: Polygraphy ignores entry points of the group polygraphy.run.plugins; it"
        " reads those of polygraphy.backends.\n"
    )
