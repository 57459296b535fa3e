"""The reference of all commands, as Markdown and as a man page, from the descriptions of the help.

Groups of options that several commands have stand once, at the end.
"""

from __future__ import annotations

import re

from polygraphy.cli.commands.listing import COMMANDS, GROUPS
from polygraphy.cli.short_help import EXAMPLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygraphy.cli.help import Description, Entry, Group

_INTRODUCTION = (
    "Polygraphy runs a model in several inference backends, compares the outputs, and finds out"
    " why they differ."
)
_GLOBAL: tuple[Entry, ...] = (
    ("-h", "Show the most important options of a command, or the commands."),
    ("--help", "Show all options of a command."),
    ("-v, --version", "Show the version."),
    ("help COMMAND [TOPIC]", "Show all options of a command, or those of a topic."),
    ("help --man", "Print this reference as a man page: polygraphy help --man | man -l -"),
    ("--completion SHELL", "Print a completion script for bash, zsh or fish."),
)

EXIT_CODES = (
    ("0", "passed"),
    ("1", "a check failed: outputs differ or are invalid"),
    ("2", "wrong usage: an invalid flag or value, or an unknown name"),
    ("3", "a backend, a build or a file failed"),
    ("4", "inconclusive: there was nothing to compare"),
    ("130", "interrupted"),
)


def _name_shared_groups(descriptions: Sequence[Description]) -> dict[Group, tuple[str, list[str]]]:
    """Return a name for each group of options that several commands share, and these commands."""
    users: dict[Group, list[str]] = {}
    for name, _, _, groups in descriptions:
        for group in groups:
            users.setdefault(group, []).append(name)
    shared: dict[Group, tuple[str, list[str]]] = {}
    used_values: dict[str, int] = {}
    for group, names in users.items():
        if len(names) > 1:
            title = group[0].replace("`", "")
            used_values[title] = used_values.get(title, 0) + 1
            shared[group] = (
                title if used_values[title] == 1 else f"{title} {used_values[title]}",
                names,
            )
    return shared


def markdown(descriptions: Sequence[Description]) -> str:
    """Return the reference as a page of the documentation."""
    shared = _name_shared_groups(descriptions)
    lines = [
        "# Commands and options",
        "",
        f"{_INTRODUCTION} `make golden` writes this page from the declarations of the options.",
        "",
        *_bullets(_GLOBAL),
        "",
    ]
    for name, (_, text) in COMMANDS.items():
        lines.append(f"- [`polygraphy {name}`](#{anchor(f'polygraphy {name}')}): {text}")
    for name, usage, text, groups in descriptions:
        lines += ["", f"## polygraphy {name}", "", _escape_text(text), "", "```", usage]
        lines += ["", *EXAMPLES[name]] if name in EXAMPLES else []
        lines.append("```")
        own_groups = [group for group in groups if group not in shared]
        other_groups = [shared[group][0] for group in groups if group in shared]
        for group in own_groups:
            lines += [
                "",
                _escape_text(f"{group[0]}{_title_suffix(group)}"),
                "",
                *_bullets(group[2]),
            ]
        links = ", ".join(f"[{title}](#{anchor(title)})" for title in other_groups)
        lines += ["", f"Shared options: {links}."] if links else []
    lines += ["", "## Shared options"]
    for group, (title, names) in shared.items():
        used = ", ".join(f"`{name}`" for name in names)
        lines += [
            "",
            f"### {title}",
            "",
            _escape_text(f"For {used}{_title_suffix(group) or '.'}"),
            "",
        ]
        lines += _bullets(group[2])
    return "\n".join((*lines, "", *_exit_code_lines())) + "\n"


def pages_of(descriptions: Sequence[Description]) -> dict[str, str]:
    """Return a page with all options for each command, by file name."""
    return {description[0].replace(" ", "-"): _page_of(description) for description in descriptions}


def list_of_pages(descriptions: Sequence[Description], folder: str) -> str:
    """Return the page that lists the pages of the commands, with the headings of `markdown`."""
    lines = ["# Commands and options", "", f"{_INTRODUCTION} Each command has a page."]
    lines += ["", *_bullets(_GLOBAL)]
    for name, usage, _, _ in descriptions:
        lines += ["", f"## polygraphy {name}", "", _escape_text(COMMANDS[name][1])]
        lines += ["", f"[`{usage}`]({folder}/{name.replace(' ', '-')}.md)"]
    lines += ["", *_exit_code_lines()]
    return "\n".join(lines) + "\n"


def _page_of(description: Description) -> str:
    """Return the Markdown page of a command."""
    name, usage, text, groups = description
    lines = [f"# polygraphy {name}", "", _escape_text(text), "", "```", usage]
    lines += ["", *EXAMPLES[name]] if name in EXAMPLES else []
    lines.append("```")
    titles = [title for title, _, _ in groups]
    for index, (title, explanation, entries) in enumerate(groups):
        if title not in titles[:index]:
            lines += ["", f"## {title}"]
        lines.append("")
        if explanation:  # In the help, the explanation follows a colon.
            lines += [_escape_text(explanation[0].upper() + explanation[1:]), ""]
        lines += _bullets(entries)
    return "\n".join((*lines, "", *_exit_code_lines())) + "\n"


def _exit_code_lines() -> list[str]:
    """Return the lines about exit codes."""
    return ["## Exit codes", "", *(f"- {code}: {meaning}" for code, meaning in EXIT_CODES)]


def man(descriptions: Sequence[Description], version: str) -> str:
    """Return the reference as a man page, in the macros of man(7)."""
    shared = _name_shared_groups(descriptions)
    lines = [
        r".\" Written from the declarations of the options.",
        f'.TH POLYGRAPHY 1 "" "Polygraphy {version}" "User Commands"',
        *(
            ".SH NAME",
            r"polygraphy \- run models in several backends, and find out why they differ",
        ),
        *(".SH SYNOPSIS", ".B polygraphy", r"\fICOMMAND\fR [\fIOPTION\fR ...]"),
        *(".SH DESCRIPTION", _escape_roff(_INTRODUCTION)),
        *_roff_items(_GLOBAL),
        ".SH COMMANDS",
    ]
    for group, text in GROUPS.items():
        lines += [".TP", rf"\fBpolygraphy {_escape_roff(group)}\fR", _escape_roff(text)]
    for name, usage, text, groups in descriptions:
        lines += [f'.SS "{_escape_roff(usage)}"', _escape_roff(text)]
        for example in EXAMPLES.get(name, ()):
            lines += [".PP", ".RS 4", rf"\fB{_escape_roff(example)}\fR", ".RE"]
        own_groups = [group for group in groups if group not in shared]
        other_groups = [shared[group][0] for group in groups if group in shared]
        for texts in own_groups:
            lines += [".PP", _escape_roff(texts[0] + _title_suffix(texts)), *_roff_items(texts[2])]
        lines += (
            [".PP", _escape_roff(f"Shared options: {', '.join(other_groups)}.")]
            if other_groups
            else []
        )
    lines.append(".SH SHARED OPTIONS")
    for texts, (title, names) in shared.items():
        lines += [f'.SS "{_escape_roff(title)}"']
        lines += [_escape_roff(f"For {', '.join(names)}{_title_suffix(texts) or '.'}")]
        lines += _roff_items(texts[2])
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        lines += [".TP", rf"\fB{code}\fR", _escape_roff(meaning)]
    lines += [".SH ENVIRONMENT", _escape_roff("polygraphy doctor lists the variables.")]
    return "\n".join(lines) + "\n"


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub creates it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _title_suffix(group: Group) -> str:
    """Return the text after the title of a group."""
    return f": {group[1]}" if group[1] else ""


def _bullets(entries: Sequence[Entry]) -> list[str]:
    """Return a Markdown list of options with their help."""
    return [f"- `{flags}`: {_escape_text(text)}" for flags, text in entries]


def _escape_text(text: str) -> str:
    """Return a text escaped for Markdown."""
    return re.sub(r"([*_<\[])", r"\\\1", text)


def _roff_items(entries: Sequence[Entry]) -> list[str]:
    """Return the lines of a list of options in a manual page."""
    return [
        line
        for flags, text in entries
        for line in (".TP", rf"\fB{_escape_roff(flags)}\fR", _escape_roff(text) or r"\&")
    ]


def _escape_roff(text: str) -> str:
    """Return a text that roff prints literally, with dashes that can be copied."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{text}" if text.startswith((".", "'")) else text
