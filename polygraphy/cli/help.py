"""The text of help, rendered from plain descriptions without importing modules for running."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.cli.commands.command import Command

    Entry = tuple[str, str]
    Group = tuple[str, str, tuple[Entry, ...]]
    Description = tuple[str, str, str, tuple[Group, ...]]

_EXTENSIBLE = "run"
"""The command that other packages add to."""

_INDENT = 2
_COLUMN = 26
_SHORT_COLUMN = 34
_LEAST_WIDTH = 60
_MOST_WIDTH = 110


def description_of(name: str) -> Description:
    """Return the description of a command's help: written when the package was built,
    else (and always with additions of other packages) from the declarations."""
    from importlib import import_module

    from polygraphy.mod.plugins import BACKENDS, are_installed

    if name == _EXTENSIBLE and are_installed(BACKENDS):
        from polygraphy.cli.commands.listing import load_command

        return describe(load_command(name).extend())
    try:
        descriptions: dict[str, Description] = import_module(
            "polygraphy.cli.described"
        ).DESCRIPTIONS
    except ImportError:
        from polygraphy.cli.commands.listing import load_command

        return describe(load_command(name))
    return descriptions[name]


def describe_all() -> dict[str, Description]:
    """Return the description of each command's help, from the declarations of this package
    alone."""
    from polygraphy.cli.commands.listing import COMMANDS, load_command

    return {name: describe(load_command(name)) for name in COMMANDS}


def write_descriptions(folder: object) -> None:
    """Write the descriptions of all commands into a folder of the build,
    as the module `description_of`.
    """
    from pathlib import Path

    descriptions = describe_all()
    text = (
        '"""The help of each command, generated from the declarations of the options."""'
        f"\n\nDESCRIPTIONS = {descriptions!r}\n"
    )
    Path(str(folder), "described.py").write_text(text, encoding="utf-8")


def describe(command: Command) -> Description:
    """Return the description of a command's help: name, usage, text, and groups of options."""
    from polygraphy.cli.declare.kinds import OrderedFlags

    groups = []
    positional = ""
    for group in command.groups:
        title, _, text = " ".join((group.__doc__ or "").split()).partition(": ")
        entries: list[tuple[str, str]] = []
        for option in command.options_of(group):
            metavar = _metavar_text(option.kind.metavar, option.kind.nargs)
            if isinstance(option.kind, OrderedFlags):
                for flag, explained in option.kind.helps.items():
                    used_text = option.kind.texts.get(flag, "")
                    entries.append((f"{flag} {used_text}".rstrip(), explained))
            elif option.is_positional:
                positional += f" {metavar}"
                entries.append((option.kind.metavar, option.full_help))
            else:
                flags = ", ".join(option.flags)
                entries.append((f"{flags} {metavar}".rstrip(), option.full_help))
        groups.append((title, text, tuple(entries)))
    return (
        command.name,
        f"polygraphy {command.name}{positional} [OPTION ...]",
        command.description,
        tuple(groups),
    )


def _metavar_text(metavar: str, nargs: object) -> str:
    """Return the metavar of an option for its number of values, with brackets and dots."""
    if nargs == 0:
        return ""
    return {
        "...": metavar,
        "?": f"[{metavar}]",
        "+": f"{metavar} [...]",
        "*": f"[{metavar} ...]",
    }.get(str(nargs), metavar)


def command_help(description: Description, width: int | None = None) -> str:
    """Return the help of a command."""
    width = width or terminal_width()
    _, usage, text, groups = description
    lines = [f"usage: {usage}", "", *wrap_text(text, width, 0)]
    for title, explanation, entries in groups:
        lines += ["", *wrap_text(f"{title}: {explanation}" if explanation else title, width, 0)]
        for flags, explained in entries:
            lines += _entry(flags, explained, width)
    lines += ["", *_entry("-h, --help", "Show the most important options, or all of them.", width)]
    return "\n".join(lines) + "\n"


def main_help(commands: dict[str, str], version: str) -> str:
    """Return the help of the program itself."""
    width = terminal_width()
    lines = [
        "usage: polygraphy [-h] [-v] COMMAND [OPTION ...]",
        "",
        *wrap_text(
            f"Polygraphy {version}: run a model in several inference backends, compare the"
            " outputs, and find out why they differ.",
            width,
            0,
        ),
        "",
        "Commands:",
    ]
    for name, text in commands.items():
        lines += _entry(name, text, width)
    lines += ["", "Options:"]
    lines += _entry("-h, --help", "Show this help, or the help of a command, and exit.", width)
    lines += _entry("-v, --version", "Show the version and exit.", width)
    lines += _entry(
        "help COMMAND [TOPIC]",
        "Show all options of a command or topic; help --man prints a man page.",
        width,
    )
    lines += _entry(
        "--completion SHELL",
        'Print a completion script for bash, zsh or fish. Usage: eval "$(polygraphy'
        ' --completion bash)".',
        width,
    )
    return "\n".join(lines) + "\n"


def group_help(group: str, text: str, commands: dict[str, str]) -> str:
    """Return the help of a group of subcommands."""
    width = terminal_width()
    usage = f"usage: polygraphy {group} [-h] COMMAND [OPTION ...]"
    lines = [usage, "", *wrap_text(text, width, 0), "", "Commands:"]
    for name, explained in commands.items():
        lines += _entry(name, explained, width)
    lines += ["", "Options:"]
    lines += _entry("-h, --help", "Show this help, or the help of a command, and exit.", width)
    return "\n".join(lines) + "\n"


def entry_line(flags: str, text: str, width: int) -> str:
    """Return an option as one line: its shortest spelling, and as much of its text as fits."""
    words = flags.split()
    names = [word for word in words if word.startswith("-")]
    used_name = " ".join(word for word in words if not word.startswith("-"))
    chosen = max(names[:2], key=lambda name: name.startswith("--")).rstrip(",") if names else ""
    first = " " * _INDENT + f"{chosen} {used_name}".strip()
    if len(first) + 2 > _SHORT_COLUMN:
        first = first[: _SHORT_COLUMN - 4] + ".."
    first = first.ljust(_SHORT_COLUMN)
    sentence = text.partition(". ")[0].rstrip(".")
    room = width - len(first)
    if len(sentence) > room:
        sentence = sentence[: room - 3].rpartition(" ")[0] + " .."
    return (first + sentence).rstrip()


def _entry(flags: str, text: str, width: int) -> list[str]:
    """Return the lines of one option: flags on the left, text on the right, or below if the flags
    are long."""
    first = " " * _INDENT + flags
    body = wrap_text(text, width, _COLUMN)
    if len(first) + 2 > _COLUMN or not body:
        return [first, *body]
    return [first + body[0][len(first) :], *body[1:]]


def wrap_text(text: str, width: int, indent: int) -> list[str]:
    """Return the lines of a text."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and indent + len(line) + 1 + len(word) > width:
            lines.append(" " * indent + line)
            line = ""
        line = f"{line} {word}" if line else word
    if line:
        lines.append(" " * indent + line)
    return lines


def terminal_width() -> int:
    """Return the maximum length of a line."""
    import os

    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return max(_LEAST_WIDTH, int(columns))
    try:
        return max(_LEAST_WIDTH, min(_MOST_WIDTH, os.get_terminal_size().columns))
    except OSError:
        return _MOST_WIDTH
