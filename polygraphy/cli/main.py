"""The entry point of the command line."""

from __future__ import annotations

import sys

from polygraphy import __version__
from polygraphy.cli.commands.listing import (
    COMMANDS,
    GROUPS,
    find,
    members,
    split_leading,
    top_level,
)
from polygraphy.cli.declare.errors import CommandLineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default `sys.argv`, and return its exit code; a command that runs
    exits by itself.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except CommandLineError as error:
        usage = error.usage or "polygraphy"
        sys.stderr.write(f"{usage}: error: {error}\n{usage} -h shows the options.\n")
        if any(word.startswith(("--format", "--report")) for word in words):
            _report_error(error, words)
        return error.exit_code
    except BrokenPipeError:
        return 0
    except OSError as error:  # Help that cannot be written: the disk that it goes to is full.
        sys.stderr.write(f"polygraphy: error: could not write: {error.strerror or error}.\n")
        return 3
    except KeyboardInterrupt:
        return 130


def _report_error(error: CommandLineError, words: Sequence[str]) -> None:
    """Write the reports that a command line asks for that could not be parsed."""
    from os.path import realpath

    from polygraphy import program
    from polygraphy.domain.catalog.reports import format_of_report

    values: dict[str, list[str]] = {"--format": [], "--report": []}
    for flag, following in zip(words, [*words[1:], ""]):
        if flag == "--check":
            break
        name, equals, value = flag.partition("=")
        if name in values:
            values[name].append(value if equals else following)
    named = [realpath(word.rpartition("=")[2]) for word in words]
    report = [  # What something else names too may be what is wrong.
        path
        for path in values["--report"]
        if format_of_report(path) is not None and named.count(realpath(path)) == 1
    ]
    format = "json" if values["--format"][-1:] == ["json"] else "text"
    program.refuse(str(error), error.exit_code, format, report)


def _dispatch(words: list[str]) -> int:
    if not words:
        raise CommandLineError("no command is given. Available: " + ", ".join(top_level()) + ".")
    first = words[0]
    if first in ("-h", "--help"):
        from polygraphy.cli.help import main_help

        return _show(main_help(top_level(), __version__))
    if first == "--version" or words == ["-v"]:
        import polygraphy

        folders = list(polygraphy.__path__)
        return _show(f"Polygraphy | Version: {__version__} | Path: {folders}\n")
    if first == "help":
        return _help(words[1:])
    if first == "--completion":
        return _show_completion(words[1:])
    leading: list[str] = []
    if first.startswith("-"):
        leading, words = split_leading(words, top_level())
    if not words:
        raise CommandLineError("no command is given. Available: " + ", ".join(top_level()) + ".")
    first, rest = words[0], words[1:]
    name = first
    if first in GROUPS:
        between, rest = split_leading(rest, members(first))
        if rest[:1] in ([], ["-h"], ["--help"]):
            return _show_group(first, is_asked_for=bool(rest))
        leading += between
        name, rest = f"{first} {rest[0]}", rest[1:]
    if name not in COMMANDS:
        raise _unknown_command(first, name)
    if rest in (["-h"], ["--help"]):
        return _show_help(name, is_short=rest == ["-h"])
    return _run(name, rest, leading)


def _run(name: str, rest: list[str], leading: list[str]) -> int:
    from polygraphy.cli import execute
    from polygraphy.cli.commands.listing import load
    from polygraphy.cli.declare.errors import forget_what_was_said
    from polygraphy.cli.declare.option import flags_in, with_options
    from polygraphy.cli.execute import warn_about_unused
    from polygraphy.cli.parser import HelpRequested, parse
    from polygraphy.cli.shared.paths import check_read
    from polygraphy.codegen.source import quoted_command

    forget_what_was_said()
    try:
        command = load(name)
        if leading:
            rest = with_options(rest, leading, command.options)
        command = command.extended(flags_in(rest))
        values = parse(command, rest)
        line = quoted_command(["polygraphy", *name.split(), *_without_script(rest)])
        source = command.render(values, line)
        warn_about_unused(values, source, lambda others: command.render(others, line))
        path = command.destination(values)
    except HelpRequested:
        return _show_help(name, is_short="--help" not in rest)
    except CommandLineError as error:
        error.usage = error.usage or f"polygraphy {name}"
        raise
    from polygraphy import program

    if path is not None:
        return program.exit_code(lambda: execute.save(source, path))
    program.before[:] = [lambda: check_read(values)]
    # The program exits by itself; what comes back was raised before it could.
    return program.exit_code(lambda: execute.run(source, name))


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
    stream: TextIO | None = sys.stdout  # None where it was closed before the start.
    if stream is not None:
        stream.write(text)
        stream.flush()
    return 0


def _show_completion(words: list[str]) -> int:
    from polygraphy.cli.completion import SHELLS, script

    if len(words) != 1 or words[0] not in SHELLS:
        raise CommandLineError(f"--completion takes one of {', '.join(SHELLS)}.")
    return _show(script(words[0]))


def _show_help(name: str, *, is_short: bool) -> int:
    from polygraphy.cli.help import command_help, described

    if is_short:
        from polygraphy.cli.short_help import short_help

        return _show(short_help(described(name)))
    return _show(command_help(described(name)))


def _help(words: list[str]) -> int:
    """Show the help of the program, of a command, or of a topic of one."""
    from polygraphy.cli.help import described

    if not words:
        return _dispatch(["--help"])
    if words == ["--man"]:
        from polygraphy.cli.reference import man

        return _show(man([described(name) for name in COMMANDS], __version__))
    if words[0] in GROUPS and len(words) == 1:
        return _show_group(words[0], is_asked_for=True)
    name, topic = find(words)
    if name not in COMMANDS:
        from polygraphy.cli.short_help import topic_help

        if len(words) == 1 and topic_help(described("run"), words[0]):
            raise CommandLineError(
                f"no command is called {words[0]!r}. It is a topic: polygraphy help run {words[0]}."
            )
        raise _unknown_command(words[0], name)
    if not topic:
        return _show_help(name, is_short=False)
    from polygraphy.cli.short_help import topic_help

    text = topic_help(described(name), " ".join(topic))
    if not text:
        titles = ", ".join(title for title, _, _ in described(name)[3])
        raise CommandLineError(
            f"no topic is called {' '.join(topic)!r}. There are: {titles}.",
            f"polygraphy help {name}",
        )
    return _show(text)


def _show_group(group: str, *, is_asked_for: bool) -> int:
    listed = members(group)
    if not is_asked_for:
        raise CommandLineError(
            f"no command is given after it. Available: {', '.join(listed)}.", f"polygraphy {group}"
        )
    from polygraphy.cli.help import group_help

    return _show(group_help(group, GROUPS[group], listed))


def _unknown_command(first: str, name: str) -> CommandLineError:
    """Return the error that says which commands there are, or which may have been meant."""
    from difflib import get_close_matches

    from polygraphy.domain.catalog.formats import format_named

    if f"--{first}" in ("--version", "--completion"):
        return CommandLineError(f"unknown command {first!r}. Did you mean polygraphy --{first}?")
    if first in GROUPS:
        known = {member: f"{first} {member}" for member in members(first)}
        word, usage, there_is = name[len(first) + 1 :], f"polygraphy {first}", list(known)
    else:
        known = {full.rpartition(" ")[2]: full for full in COMMANDS}
        known.update({full: full for full in top_level()})
        word, usage, there_is = name, "polygraphy", list(top_level())
    if "model" in known and format_named(word) is not None:
        return CommandLineError(
            f"unknown command {name!r}. Did you mean {first} model {word}?", usage
        )
    matches = [known[match] for match in get_close_matches(word, known, n=2)]
    meant = (
        f"Did you mean {' or '.join(matches)}?" if matches else f"Available: {', '.join(there_is)}."
    )
    return CommandLineError(f"unknown command {name!r}. {meant}", usage)
