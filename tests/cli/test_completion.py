"""Completion, asked of the shells themselves."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from polygraphy.cli.commands.listing import COMMANDS, GROUPS, members, top_level
from polygraphy.cli.completion import SHELLS, completion_script
from polygraphy.cli.main import main

BASH, FISH, ZSH = (shutil.which(shell) for shell in ("bash", "fish", "zsh"))


def completed(words: list[str], folder: Path) -> list[str]:
    """Return what bash offers for the last of some words."""
    assert BASH is not None
    quoted = " ".join(f"'{word}'" for word in words)
    asked = f"{completion_script('bash')}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _polygraphy; "
    done = subprocess.run(
        [BASH, "-c", asked + "printf '%s\\n' \"${COMPREPLY[@]}\""],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["polygraphy", ""], list(top_level())),
        (["polygraphy", "ru"], ["run"]),
        (["polygraphy", "inspect", ""], list(members("inspect"))),
        (["polygraphy", "-v", "ru"], ["run"]),
        (["polygraphy", "--log-fo"], ["--log-format"]),
        (["polygraphy", "--log-file", "b"], ["b.json"]),
        (["polygraphy", "--log-file", "b.json", "inspect", "-v", "sp"], ["sparsity"]),
        (["polygraphy", "inspect", "-v", ""], list(members("inspect"))),
        (["polygraphy", "-v", "inspect", "-q", "model", "--displ"], ["--display-as"]),
        (["polygraphy", "run", "--onnxr"], ["--onnxrt"]),
        (["polygraphy", "run", "--rto"], ["--rtol"]),
        (["polygraphy", "run", "--model-type", "eng"], ["engine"]),
        (["polygraphy", "run", "--compare", "cosine"], ["cosine_similarity"]),
        (["polygraphy", "run", "--check-error-stat", "elem"], ["elemwise"]),
        (["polygraphy", "run", "--graph-optimization-level", "DIS"], ["DISABLE_ALL"]),
        (["polygraphy", "help", "run", "tensorr"], ["tensorrt"]),
        (["polygraphy", "help", "check", "lint", "repo"], ["report"]),
        (["polygraphy", "run", "a.on"], ["a.onnx"]),
        (["polygraphy", "run", "a.onnx", "--save-outputs", "b"], ["b.json"]),
    ],
)
def test_bash_offers_commands_options_choices_and_files(
    tmp_path: Path, words: list[str], offered: list[str]
) -> None:
    for name in ("a.onnx", "b.json"):
        (tmp_path / name).touch()
    assert completed(words, tmp_path) == offered


QUESTIONS = [
    ("polygraphy ru", "run"),
    ("polygraphy inspect sp", "sparsity"),
    ("polygraphy run --onnxr", "--onnxrt"),
    ("polygraphy run --model-type eng", "engine"),
    ("polygraphy run --precision-constraints pre", "prefer"),
    ("polygraphy run a.on", "a.onnx"),
    ("polygraphy --log-fo", "--log-format"),
    ("polygraphy -v ru", "run"),
    ("polygraphy -v inspect -q sp", "sparsity"),
    ("polygraphy inspect -v model --displ", "--display-as"),
]


@pytest.mark.skipif(FISH is None, reason="there is no fish")
def test_fish_offers_them_too(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").touch()
    (tmp_path / "c.fish").write_text(completion_script("fish"), encoding="utf-8")
    asked = "; ".join(f"complete -C {line!r}; echo" for line, _ in QUESTIONS)
    done = subprocess.run(
        [FISH or "", "-c", f"source c.fish; {asked}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    answers = [lines.split("\t")[0] for lines in done.stdout.split("\n\n") if lines]
    assert answers == [answer for _, answer in QUESTIONS]


@pytest.mark.skipif(ZSH is None, reason="there is no zsh")
@pytest.mark.parametrize(("line", "answer"), QUESTIONS)
def test_zsh_completes_what_is_typed(tmp_path: Path, line: str, answer: str) -> None:
    (tmp_path / "a.onnx").touch()
    (tmp_path / "c.zsh").write_text(completion_script("zsh"), encoding="utf-8")
    typed = (
        "autoload -U compinit; compinit -u -D; source ./c.zsh\n"
        'polygraphy() { print -rl -- "<$@>" > said; exit }\n'
        f"{line}\t\n"
    )
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [ZSH or "", "-f", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, cwd=tmp_path
    ) as shell:
        os.write(master, typed.encode())
        shell.wait(timeout=60)
    os.close(master)
    os.close(terminal)
    assert (tmp_path / "said").read_text().rstrip("> \n").endswith(answer)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", shell]) == 0
    shown = capsys.readouterr().out
    for command in (*COMMANDS, *GROUPS):
        assert all(word in shown for word in command.split())
    assert ("-l rtol" if shell == "fish" else "--rtol") in shown


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", "cmd"]) == 2
    assert main(["--completion"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
