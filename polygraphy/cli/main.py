"""The entry point of the command line."""

from __future__ import annotations

import sys

from polygraphy import __version__
from polygraphy.cli.commands import COMMANDS
from polygraphy.cli.errors import CommandLineError

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, `sys.argv` unless given, and return its exit code; a command that runs
    exits by itself.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except CommandLineError as error:
        sys.stderr.write(f"{error.usage}: error: {error}\n{error.usage} -h shows the options.\n")
        return EXIT_USAGE
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 130


def _dispatch(words: list[str]) -> int:
    if not words:
        raise CommandLineError("no command is given. There is: " + ", ".join(COMMANDS) + ".")
    name, rest = words[0], words[1:]
    if name in ("-h", "--help"):
        from polygraphy.cli.help import main_help

        return _show(main_help(COMMANDS, __version__))
    if name in ("-v", "--version"):
        return _show(f"Polygraphy {__version__}\n")
    if name not in COMMANDS:
        raise CommandLineError(_unknown_command(name))
    if rest in (["-h"], ["--help"]):
        return _show_help(name)
    return _run(name, rest)


def _run(name: str, rest: list[str]) -> int:
    from polygraphy.cli import execute
    from polygraphy.cli.commands import load
    from polygraphy.cli.options.script import ScriptOptions
    from polygraphy.cli.parser import HelpRequested, parse

    command = load(name)
    try:
        values = parse(command, rest)
    except HelpRequested:
        return _show_help(name)
    source = command.render(values, ["polygraphy", name, *_without_script(rest)])
    path = values[ScriptOptions].gen_script
    if path is None:
        execute.run(source, name)
        return 0
    from polygraphy import program

    return program.exit_code(lambda: execute.save(source, path))


def _without_script(words: list[str]) -> list[str]:
    """Leave out the option that saves the program: it says nothing about what the program does."""
    kept = list(words)
    for position, word in enumerate(words):
        if word == "--check":
            break
        if word.startswith("--gen"):
            del kept[position : position + (1 if "=" in word else 2)]
            break
    return kept


def _show(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _show_help(name: str) -> int:
    from polygraphy.cli.help import command_help, described

    return _show(command_help(described(name)))


def _unknown_command(name: str) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(name, COMMANDS, n=2)
    meant = (
        f" Did you mean {' or '.join(matches)}?"
        if matches
        else f" There is: {', '.join(COMMANDS)}."
    )
    return f"{name!r} is no command.{meant}"
