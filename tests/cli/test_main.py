"""The entry point: help, version, usage errors, and what is imported for each."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from polygraphy.cli.commands.listing import COMMANDS, GROUPS, load_command, members, top_level
from polygraphy.cli.help import command_help, describe, description_of, write_descriptions
from polygraphy.cli.main import main
from polygraphy.cli.parser import parse
from tests.support.program_facts import VERSION


def run_python(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    shown = capsys.readouterr().out
    for name, text in top_level().items():
        assert name in shown
        assert text.split(".")[0][:30] in shown
    assert next(iter(top_level())) == "run"


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_lists_its_commands(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([group, "-h"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: polygraphy {group} [-h] COMMAND")
    assert members(group)
    for name, text in members(group).items():
        assert f"  {name} " in shown
        assert text.split(".")[0][:30] in shown


@pytest.mark.parametrize("name", [name for name in COMMANDS if " " in name])
def test_a_sub_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "-h"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: polygraphy {name} ")
    assert load_command(name).name == name


def test_every_positional_argument_is_in_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "diff", "-h"]) == 0
    assert "usage: polygraphy inspect diff REFERENCE CANDIDATE [OPTION ...]" in (
        capsys.readouterr().out
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == VERSION


@pytest.mark.parametrize(
    "words", [["run", "--help"], ["help", "run"], ["run", "--onnxrt", "a.onnx", "--help"]]
)
def test_the_help_of_a_command_names_every_option(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out
    for group in describe(load_command("run"))[3]:
        for flags, _ in group[2]:
            assert flags in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_short_help_fits_a_screen_and_says_where_the_rest_is(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    whole = capsys.readouterr().out
    assert main([*name.split(), "-h"]) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 80
    if shown != whole:
        assert f"polygraphy {name} --help" in shown.replace("\n", " ")


def test_the_examples_of_a_short_help_are_command_lines_that_there_are() -> None:
    from polygraphy.cli.short_help import EXAMPLES

    for name, examples in EXAMPLES.items():
        for example in examples:
            words = example.split()[1 + len(name.split()) :]
            assert example.startswith(f"polygraphy {name} ")
            command = load_command(name)
            parse(command.extend(words), words)


def test_the_lines_of_a_short_help_are_complete_and_name_options_of_the_command() -> None:
    from polygraphy.cli.short_help import LINES

    for name, lines in LINES.items():
        entries = [entry for group in describe(load_command(name))[3] for entry in group[2]]
        spellings = {word.rstrip(",") for flags, _ in entries for word in flags.split()}
        for options, text in lines:
            flags = {word.rstrip(",") for word in options.split() if word.startswith("-")}
            assert flags <= spellings | {"MODEL"}
            assert len(options) <= 25
            assert len(text) <= 51


def test_help_about_a_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "run", "trt"]) == 0
    shown = capsys.readouterr().out
    assert "--trt-min-shapes" in shown
    assert "--val-range" not in shown
    assert main(["help", "run", "rtol"]) == 0
    assert "--rtol, --rel-tol" in capsys.readouterr().out
    assert main(["help", "run", "onnxrt"]) == 0
    assert "--intra-op-threads" in capsys.readouterr().out
    assert main(["help", "trt"]) == 2
    assert "polygraphy help run trt" in capsys.readouterr().err
    assert main(["help", "run", "nothing of the kind"]) == 2
    assert "TensorRT Profiles" in capsys.readouterr().err


def test_the_help_of_a_command_says_what_each_group_is_about() -> None:
    command = load_command("run")
    explained = {title: text for title, text, _ in describe(command)[3]}
    for group in command.groups:
        title, _, text = " ".join((group.__doc__ or "").split()).partition(": ")
        assert explained[title] == text


def test_help_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main(["run", "-h"]) == 3
        monkeypatch.setattr("sys.stdout", None)
        assert main(["run", "-h"]) == 0
        with suppress(OSError):
            full.close()
    assert capsys.readouterr().err == (
        "polygraphy: error: could not write: No space left on device.\n"
    )


@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_keeps_within_the_terminal(width: int) -> None:
    unbreakable = (
        max(len(flags) for group in describe(load_command("run"))[3] for flags, _ in group[2]) + 2
    )
    lines = command_help(describe(load_command("run")), width).splitlines()
    assert max(map(len, lines)) <= max(width, unbreakable)


def test_help_is_the_same_from_what_the_build_wrote(tmp_path: Path) -> None:
    write_descriptions(tmp_path)
    written: dict[str, object] = {}
    exec((tmp_path / "described.py").read_text(encoding="utf-8"), written)
    assert written["DESCRIPTIONS"] == {name: description_of(name) for name in COMMANDS}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "missing command. Available: run"),
        (["rum"], "unknown command 'rum'. Did you mean run?"),
        (["version"], "Did you mean polygraphy --version?"),
        (["run", "m.onnx", "--ort"], "--ort does not exist; did you mean --onnxrt?"),
        (
            ["diagnose", "m.onnx", "--pluginref"],
            "--pluginref is not an option of this command, but of",
        ),
        (["inspect"], "polygraphy inspect: error: missing subcommand. Available: data,"),
        (["inspect", "dat"], "unknown command 'inspect dat'. Did you mean inspect data"),
        (["inspect", "--xyz"], "unknown command 'inspect --xyz'. Available: data"),
        (
            ["inspect", "m.onnx"],
            "unknown command 'inspect m.onnx'. Did you mean inspect model m.onnx",
        ),
        (["concta"], "unknown command 'concta'. Did you mean data concat or convert"),
        (["inspct", "data"], "unknown command 'inspct'. Did you mean inspect"),
        (["inspect", "data"], "the following arguments are required: PATH."),
        (["inspect", "data", "a", "-n", "0"], "argument -n/--num-items: 0 would show nothing."),
        (["inspect", "diff", "a"], "the following arguments are required: CANDIDATE."),
        (["data", "concat", "a"], "missing --output: set the path with -o PATH."),
        (["data", "convert", "a", "./a"], "PATH and OUTPUT have the same path, ./a."),
        (["data", "merge", "b", "a", "-o", "a"], "PATH and --output have the same path, a."),
        (["check", "accuracy", "a", "--check-error-stat", "elemwise"], "'elemwise' is not one of"),
        (
            ["run"],
            "nothing to run. Choose at least one of --onnxrt, --onnx, --openvino, --trt.",
        ),
        (["run", "a.onnx"], "nothing to run"),
        (["run", "--onnxrt"], "missing model"),
        (["run", "a.engine", "--onnxrt"], "a.engine is a model of type engine"),
        (["run", "--load-outputs", "a", "--save-outputs", "b"], "nothing to save without a runner"),
        (
            ["run", "a.onnx", "--onnxrt", "--load-inputs", "i", "--save-inputs", "i"],
            "--load-inputs and --save-inputs have the same path, i.",
        ),
        (
            ["run", "a.onnx", "--onnxrt", "--load-outputs", "o", "--save-outputs", "o"],
            "--load-outputs and --save-outputs have the same path, o.",
        ),
        (
            ["run", "a.onnx", "--onnxrt", "--save-outputs", "./a.onnx"],
            "MODEL and --save-outputs have the same path, ./a.onnx.",
        ),
        (
            ["run", "a.onnx", "--onnxrt", "--onnx", "--save-accuracy-results", "a.onnx"],
            "MODEL and --save-accuracy-results have the same path, a.onnx.",
        ),
        (
            ["run", "a.onnx", "--onnxrt", "--gen-script", "a.onnx"],
            "MODEL and --gen-script have the same path, a.onnx.",
        ),
        (
            ["run", "a.onnx", "--onnxrt", "--log-file", "a.onnx"],
            "MODEL and --log-file have the same path, a.onnx.",
        ),
        (
            ["run", "a.onnx", "--onnxrt", "--save-inputs", "x", "--save-outputs", "x"],
            "--save-inputs and --save-outputs have the same path, x.",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *rest = shown.err.splitlines()
    assert message in first
    assert len(rest) == 1 and rest[0].endswith("-h shows the options.")


LIGHT = ("numpy", "attr", "jinja2", "typing", "argparse", "logging", "inspect", "onnx", "rich")


def test_the_help_of_the_program_imports_next_to_nothing() -> None:
    done = run_python(
        "import sys; before = set(sys.modules); from polygraphy.cli.main import main; main(['-h']);"
        f"print('LOADED', [m for m in {LIGHT!r} if m in set(sys.modules) - before])"
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_the_help_of_a_command_imports_no_numpy() -> None:
    done = run_python(
        "import sys; from polygraphy.cli.main import main; main(['run', '-h']);"
        "print('LOADED', [m for m in ('numpy', 'onnx', 'onnxruntime') if m in sys.modules])"
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize("words", [["inspect", "-h"], ["inspect", "data", "-h"]])
def test_the_help_of_sub_commands_imports_no_numpy(words: list[str]) -> None:
    done = run_python(
        f"import sys; from polygraphy.cli.main import main; main({words!r});"
        "print('LOADED', [m for m in ('numpy', 'onnx', 'onnxruntime') if m in sys.modules])"
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.slow
def test_running_imports_only_what_the_run_needs(identity_dir: Path) -> None:
    code = (
        "import sys; sys.argv = ['polygraphy', 'run', 'identity.onnx', '--onnxrt', '--silent']\n"
        "from polygraphy.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert done.code == 0\n"
        "print('LOADED', [m for m in ('onnx', 'torch', 'rich', 'black', 'tensorrt', 'tensorflow',"
        " 'ml_dtypes', 'matplotlib', 'polygraphy.adapters.onnx.run.reference') if m in sys.modules])"
    )
    done = run_python(code, identity_dir)
    assert done.stdout.splitlines()[-1] == "LOADED []", done.stdout + done.stderr


@pytest.mark.slow
def test_packages_that_a_run_does_not_need_are_not_even_looked_into(identity_dir: Path) -> None:
    for name in ("torch", "tensorrt", "tensorflow", "onnx"):
        (identity_dir / "shadow" / name).mkdir(parents=True)
        (identity_dir / "shadow" / name / "__init__.py").write_text("raise SystemExit(99)")
    done = subprocess.run(
        [sys.executable, "-m", "polygraphy", "run", "identity.onnx", "--onnxrt", "--onnxrt"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(identity_dir / "shadow")},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_python_m_is_the_same_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "polygraphy", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == VERSION


def test_a_program_is_saved_formatted_and_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "missing.onnx", "--onnxrt", "--gen-script"]
    assert main([*words, "script.py"]) == 0
    assert (tmp_path / "script.py").stat().st_mode & 0o111
    assert main([*words, "-"]) == 0
    saved = (tmp_path / "script.py").read_text(encoding="utf-8")
    assert capsys.readouterr().out == saved
    assert "--gen-script" not in saved


def test_a_mistake_leaves_an_existing_script_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("precious", encoding="utf-8")
    assert main(["run", "a.onnx", "--onnxrt", "--rtol", "x", "--gen-script", str(script)]) == 2
    assert main(["run", "a.onnx", "--gen-script", str(script)]) == 2
    assert script.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("flag", ["--log-file", "--gen-script"])
@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "model", "precious"],
        ["inspect", "data", "other", "precious"],
        ["check", "accuracy", "precious"],
        ["data", "merge", "precious", "-o", "other"],
        ["run", "other", "--onnxrt", "--data-loader-script", "precious:load"],
        ["surgeon", "weight-strip", "other", "-o", "x", "--exclude-list", "precious"],
    ],
    ids=" ".join,
)
def test_neither_log_nor_program_overwrites_what_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    flag: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "precious.py"
    precious.write_text("precious", encoding="utf-8")
    words = [word.replace("precious", "precious.py") for word in words]
    assert main([*words, flag, "./precious.py"]) == 2
    assert f"{flag} would overwrite ./precious.py" in capsys.readouterr().err
    assert precious.read_text(encoding="utf-8") == "precious"


def test_a_script_that_cannot_be_saved_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "a.onnx", "--onnxrt", "--gen-script", str(tmp_path)]) == 3
    assert "is a folder" in capsys.readouterr().err
