"""The entry point of the command line: runs the program of a command in this process, or saves it
without overwriting edits, and warns of options without effect.
"""

from __future__ import annotations

import os
import sys

from polygraphy import __version__
from polygraphy.cli.commands.listing import (
    COMMANDS,
    GROUPS,
    members,
    split_command,
    split_leading,
    top_level,
)
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.python_command import ignore_empty_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from polygraphy.cli.declare.option import Values

_IDLE = ("OPENBLAS_THREAD_TIMEOUT", "20")
"""When an idle thread of NumPy's OpenBLAS goes to sleep: after 2**20 clock cycles, less than a
millisecond, which products of matrices in a row do not notice. By default they all spin for a tenth
of a second from the import of NumPy on, beside what is run, as much as half of a short command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default `sys.argv`, and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    ignore_empty_paths()
    try:
        return _dispatch(words)
    except CommandLineError as error:
        usage = error.usage or "polygraphy"
        from polygraphy.logger.sinks import escape_controls

        text = f"{usage}: error: {error}\n{usage} -h shows the options.\n"
        sys.stderr.write(escape_controls(text))
        if any(word.startswith(("--format", "--report")) for word in words):
            _report_error(error, words)
        return error.exit_code
    except BrokenPipeError:
        return 0
    except OSError as error:  # The help cannot be written, because the disk is full.
        sys.stderr.write(f"polygraphy: error: could not write: {error.strerror or error}.\n")
        return 3
    except KeyboardInterrupt:
        return 130


def _report_error(error: CommandLineError, words: Sequence[str]) -> None:
    """Write the reports that an invalid command line requests."""
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
    report = [  # Skip a report path that another option also names, because that may be the error.
        path
        for path in values["--report"]
        if format_of_report(path) is not None and named.count(realpath(path)) == 1
    ]
    format = "json" if values["--format"][-1:] == ["json"] else "text"
    program.refuse(str(error), error.exit_code, format, report)


def _dispatch(words: list[str]) -> int:
    """Run a command line, or answer it with help or the version; return the exit code."""
    if not words:
        raise CommandLineError("missing command. Available: " + ", ".join(top_level()) + ".")
    first = words[0]
    if first in ("-h", "--help"):
        from polygraphy.cli.help import main_help

        return _print_text(main_help(top_level(), __version__))
    if first == "--version" or words == ["-v"]:
        import polygraphy

        folders = list(polygraphy.__path__)
        return _print_text(f"Polygraphy | Version: {__version__} | Path: {folders}\n")
    if first == "help":
        return _help_command(words[1:])
    if first == "--completion":
        return _show_completion(words[1:])
    leading: list[str] = []
    if first.startswith("-"):
        leading, words = split_leading(words, top_level())
    if not words:
        raise CommandLineError("missing command. Available: " + ", ".join(top_level()) + ".")
    first, dispatch = words[0], words[1:]
    name = first
    if first in GROUPS:
        between, dispatch = split_leading(dispatch, members(first))
        if dispatch[:1] in ([], ["-h"], ["--help"]):
            return _show_group(first, is_asked_for=bool(dispatch))
        leading += between
        name, dispatch = f"{first} {dispatch[0]}", dispatch[1:]
    if name not in COMMANDS:
        raise _unknown_command_error(first, name)
    if dispatch in (["-h"], ["--help"]):
        return _show_help(name, is_short=dispatch == ["-h"])
    return _run_command(name, dispatch, leading)


def _run_command(name: str, remaining_words: list[str], leading: list[str]) -> int:
    """Parse a command, then save or run its program; return the exit code."""
    from polygraphy.cli.commands.listing import load_command
    from polygraphy.cli.declare.errors import forget_messages
    from polygraphy.cli.declare.option import flags_in, with_options
    from polygraphy.cli.parser import HelpRequested, parse
    from polygraphy.cli.shared.paths import check_read
    from polygraphy.codegen.source import quote_command

    forget_messages()
    try:
        command = load_command(name)
        if leading:
            remaining_words = with_options(remaining_words, leading, command.options)
        command = command.extend(flags_in(remaining_words))
        values = parse(command, remaining_words)
        line = quote_command(["polygraphy", *name.split(), *_without_save_option(remaining_words)])
        source = command.render(values, line)
        _warn_about_unused(values, source, lambda values: command.render(values, line))
        path = command.destination(values)
    except HelpRequested:
        return _show_help(name, is_short="--help" not in remaining_words)
    except CommandLineError as error:
        error.usage = error.usage or f"polygraphy {name}"
        raise
    from polygraphy import program

    if path is not None:
        return program.exit_code(lambda: save(source, path))
    program.before[:] = [lambda: check_read(values)]
    # A program ends the process itself, so an error here was raised before its end.
    return program.exit_code(lambda: execute(source, name))


def execute(source: str, name: str) -> None:
    """Run a program like a main script, so that tracebacks show its lines.
    It does not return, because the program exits."""
    import linecache

    from polygraphy.termination import remember_interrupts

    os.environ.setdefault(*_IDLE)
    remember_interrupts()
    filename = f"<polygraphy {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"__name__": "__main__", "__file__": filename, "__builtins__": __builtins__}
    exec(compile(source, filename, "exec"), namespace)


def save(source: str, path: str) -> None:
    """Write a formatted program; ``-`` is standard output.

    Raises:
        UsageError: the file exists, and was edited.
        FileError: the file cannot be written.
    """
    from polygraphy.codegen.render import format_source

    pretty = format_source(source)
    if path == "-":
        sys.stdout.write(_without_commands(pretty))
        return
    _refuse_to_overwrite_edits(path, pretty)
    from polygraphy.ports.storage import write_text

    write_text(path, pretty, executable=True)


def _refuse_to_overwrite_edits(path: str, text: str) -> None:
    """Raise UsageError if saving a program would replace a file that no command can generate.

    Args:
        path: path for the program.
        text: the program.

    Raises:
        UsageError: the file exists, and differs from what its own command line generates.
    """
    from pathlib import Path

    from polygraphy.domain.errors import UsageError

    remote_path = Path(path)
    try:
        if not remote_path.is_file() or remote_path.stat().st_size == 0:
            return
        before = remote_path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        before = ""
    # Writing the file reports the error.
    except (OSError, ValueError):
        return
    if before not in (text, _regenerate_program(before)):
        raise UsageError(
            f"{path} exists and would be overwritten: it was edited, generated by a different"
            " version, or is not a generated program.",
            hint="Choose a different file, or remove this one.",
        )


def _regenerate_program(program: str) -> str | None:
    """Return the program that the command line in a program's docstring generates, or None.
    The result is None without one.
    """
    import ast
    from contextlib import redirect_stderr
    from pathlib import Path

    from polygraphy.cli.commands.listing import load_command
    from polygraphy.cli.declare.option import flags_in
    from polygraphy.cli.parser import parse
    from polygraphy.codegen.render import format_source
    from polygraphy.codegen.source import quote_command
    from polygraphy.domain.tensors.naming import read_command

    try:
        lines = (ast.get_docstring(ast.parse(program)) or "").splitlines()
        words = read_command(lines[-1] if lines else "")
        name, regenerated_program = split_command(words[1:])
        if words[0] != "polygraphy" or name not in COMMANDS:
            return None
        command = load_command(name).extend(flags_in(regenerated_program))
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
            return format_source(
                command.render(parse(command, regenerated_program), quote_command(words))
            )
    except Exception:  # The command in the file is not valid, so it was edited.
        return None


def _warn_about_unused(values: Values, source: str, render: Callable[[Values], str]) -> None:
    """Log options that have no effect on a program, except those that a warning already named.

    Args:
        values: the options.
        source: the program.
        render: returns the program of other options.
    """
    from contextlib import redirect_stderr, suppress
    from io import StringIO

    from polygraphy.cli.declare.errors import warn_of_idle_flags, were_mentioned
    from polygraphy.cli.declare.option import with_values

    # Collect all suspects first, because rendering a program logs messages. The code may use an
    # option elsewhere, so render again only for these.
    suspects = [
        (group, row)
        for group, row, _ in values.non_default_options
        if row.feeds
        and not were_mentioned(row.flags)
        and not any(f"{target.rpartition('.')[0]}(" in source for target in row.feeds)
    ]
    unused = []
    for group, row in suspects:
        without = values.replace_groups(with_values(group, **{row.name: row.default}))
        with redirect_stderr(StringIO()), suppress(CommandLineError):
            if render(without) == source:
                unused.append(row.flags[0])
    warn_of_idle_flags(unused, ", because nothing in this program uses it")


def _without_commands(program: str) -> str:
    """Return a program without workflow commands for GitHub's runner in its strings.
    Python escapes keep its meaning."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return program
    from polygraphy.logger.sinks import without_commands

    return without_commands(program)


def _without_save_option(words: list[str]) -> list[str]:
    """Return the words without the option that saves the program."""
    save_option = list(words)
    for position, word in enumerate(words):
        if word == "--check":
            break
        if word.startswith("--gen"):
            del save_option[position : position + (1 if "=" in word else 2)]
            break
    return save_option


def _print_text(text: str) -> int:
    """Write a text to standard output, and return exit code 0."""
    stream: TextIO | None = sys.stdout  # The stream is None if it was closed before the start.
    if stream is not None:
        stream.write(text)
        stream.flush()
    return 0


def _show_completion(words: list[str]) -> int:
    """Print the completion script for a shell; return the exit code."""
    from polygraphy.cli.completion import SHELLS, completion_script

    if len(words) != 1 or words[0] not in SHELLS:
        raise CommandLineError(f"--completion must be one of {', '.join(SHELLS)}.")
    return _print_text(completion_script(words[0]))


def _show_help(name: str, *, is_short: bool) -> int:
    """Print the full or short help of a command; return the exit code."""
    from polygraphy.cli.help import command_help, description_of

    if is_short:
        from polygraphy.cli.short_help import short_help

        return _print_text(short_help(description_of(name)))
    return _print_text(command_help(description_of(name)))


def _help_command(words: list[str]) -> int:
    """Show the help of the program, of a command, or of a topic of one; return the exit code."""
    from polygraphy.cli.help import description_of

    if not words:
        return _dispatch(["--help"])
    if words == ["--man"]:
        from polygraphy.cli.reference import man

        return _print_text(man([description_of(name) for name in COMMANDS], __version__))
    if words[0] in GROUPS and len(words) == 1:
        return _show_group(words[0], is_asked_for=True)
    name, topic = split_command(words)
    if name not in COMMANDS:
        from polygraphy.cli.short_help import topic_help

        if len(words) == 1 and topic_help(description_of("run"), words[0]):
            raise CommandLineError(
                f"{words[0]} is not a command but a topic: polygraphy help run {words[0]}."
            )
        raise _unknown_command_error(words[0], name)
    if not topic:
        return _show_help(name, is_short=False)
    from polygraphy.cli.short_help import topic_help

    text = topic_help(description_of(name), " ".join(topic))
    if not text:
        titles = ", ".join(title for title, _, _ in description_of(name)[3])
        raise CommandLineError(
            f"unknown topic {' '.join(topic)!r}. Available: {titles}.",
            f"polygraphy help {name}",
        )
    return _print_text(text)


def _show_group(group: str, *, is_asked_for: bool) -> int:
    """Return the exit code after printing the commands of a group, if help is asked for;
    else raise that a command is missing.
    """
    listed = members(group)
    if not is_asked_for:
        raise CommandLineError(
            f"missing subcommand. Available: {', '.join(listed)}.", f"polygraphy {group}"
        )
    from polygraphy.cli.help import group_help

    return _print_text(group_help(group, GROUPS[group], listed))


_COMPARE = (
    "To compare backends: polygraphy run MODEL --onnxrt --onnx. To compare two models: polygraphy"
    " diagnose MODEL --reference OTHER (outputs), polygraphy inspect diff MODEL OTHER (nodes)."
)
_DATA = "Saved inputs and outputs: polygraphy inspect data FILE."
_OTHER_NAMES = {
    "compare": _COMPARE,
    "diff": _COMPARE,
    "verify": _COMPARE,
    "inspect results": _DATA,
    "inspect inputs": _DATA,
}
"""What to type instead of command names of other tools, or names that users expect."""


def _unknown_command_error(first: str, name: str) -> CommandLineError:
    """Return the error that lists the commands, or the closest ones."""
    from difflib import get_close_matches

    from polygraphy.domain.catalog.formats import format_named

    if name in _OTHER_NAMES:
        usage = f"polygraphy {first}" if first in GROUPS else "polygraphy"
        return CommandLineError(f"unknown command {name!r}. {_OTHER_NAMES[name]}", usage)
    flags = ("--version", "--completion", "--help")
    if f"--{first}" in flags or first.startswith("-"):
        [flag] = get_close_matches(f"--{first.lstrip('-')}", flags, n=1) or [""]
        if flag:
            return CommandLineError(f"unknown command {first!r}. Did you mean polygraphy {flag}?")
    if first in GROUPS:
        texts = {member: f"{first} {member}" for member in members(first)}
        word, usage, there_is = name[len(first) + 1 :], f"polygraphy {first}", list(texts)
    else:
        texts = {full.rpartition(" ")[2]: full for full in COMMANDS}
        texts.update({full: full for full in top_level()})
        word, usage, there_is = name, "polygraphy", list(top_level())
    if "model" in texts and format_named(word) is not None:
        return CommandLineError(
            f"unknown command {name!r}. Did you mean {first} model {word}?", usage
        )
    matches = [texts[match] for match in get_close_matches(word, texts, n=2)]
    text = (
        f"Did you mean {' or '.join(matches)}?" if matches else f"Available: {', '.join(there_is)}."
    )
    return CommandLineError(f"unknown command {name!r}. {text}", usage)
