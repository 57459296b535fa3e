"""Completion for shells, made from what the help of each command says."""

from __future__ import annotations

from polygraphy.cli.commands.listing import COMMANDS, GROUPS, load_command, members, top_level
from polygraphy.cli.declare.option import options_of
from polygraphy.cli.help import description_of
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.short_help import topics_of

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_polygraphy_first() {{  # The first of the words that the list holds; options may come before.
    local list=" $1 " word
    shift
    for word in "$@"; do
        if [[ "$list" == *" $word "* ]]; then echo "$word"; return; fi
    done
}}
_polygraphy() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local before=("${{COMP_WORDS[@]:1:$((COMP_CWORD-1))}}") offered="{commands}" command member
    COMPREPLY=()
    command=$(_polygraphy_first "$offered" "${{before[@]}}")
    case "$command" in
{groups}    esac
    if [[ -n "$offered" ]]; then
        if [[ "$current" == -* ]]; then offered="{leading}"; fi
        if [[ "$previous" == --log-file ]]; then
            COMPREPLY=($(compgen -f -- "$current"))
        else
            COMPREPLY=($(compgen -W "$offered" -- "$current"))
        fi
        return
    fi
    if [[ "${{COMP_WORDS[1]}}" == help ]]; then
        case "$command" in
{topics}        esac
        return
    fi
    case "$command $previous" in
{choices}    esac
    if [[ "$current" == -* ]]; then
        case "$command" in
{flags}        esac
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _polygraphy polygraphy
"""

_BASH_GROUP = """\
        {group})
            offered="{members}"
            member=$(_polygraphy_first "$offered" "${{before[@]}}")
            if [[ -n "$member" ]]; then offered=""; command="$command $member"; fi ;;
"""


def completion_script(shell: str) -> str:
    """Return the script with which a shell completes commands, options and choices."""
    if shell == "fish":
        return _fish_script()
    bash = _bash_script()
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _options(command: str) -> list[tuple[list[str], list[str], str]]:
    """Return the options of a command: spellings, choices (if there are few) and help."""
    options: list[tuple[list[str], list[str], str]] = [
        (["-h", "--help"], [], "Show this text and exit.")
    ]
    known_choices = _choices_of(command)
    for _, _, entries in description_of(command)[3]:
        for declared, text in entries:
            words = declared.split()
            flags = [word.rstrip(",") for word in words if word.startswith("-")]
            metavar = next((word for word in words if not word.startswith("-")), "")
            allowed = metavar.startswith("{")
            choices = metavar[1:].partition("}")[0].split(",") if allowed else []
            if flags:
                options.append((flags, choices or known_choices.get(flags[-1], []), text))
    return options


def _choices_of(command: str) -> dict[str, list[str]]:
    """Return the words that options accept, by flag, if the help lists them."""
    choices_of = {}
    for row in load_command(command).options:
        kind = getattr(row.kind, "value", row.kind)  # For values per name, the kind of one value.
        if kind.choices:
            choices_of.update({flag: [*kind.choices] for flag in row.flags})
    return choices_of


def _leading_options() -> list[str]:
    """Return the options that are allowed before a command."""
    return [flag for row in options_of(LogOptions) for flag in row.flags]


def _bash_script() -> str:
    """Return the completion script for Bash."""
    choices, flags, topics = "", "", ""
    for command in COMMANDS:
        options = _options(command)
        words = " ".join(topics_of(description_of(command)[3]))
        topics += f'            "{command}") COMPREPLY=($(compgen -W "{words}" -- "$current")) ;;\n'
        spelled = " ".join(flag for listed, _, _ in options for flag in listed)
        flags += (
            f'            "{command}") COMPREPLY=($(compgen -W "{spelled}" -- "$current")) ;;\n'
        )
        for listed, allowed, _ in options:
            if allowed:
                patterns = "|".join(f'"{command} {flag}"' for flag in listed)
                words = " ".join(allowed)
                choices += (
                    f'        {patterns}) COMPREPLY=($(compgen -W "{words}" -- "$current")); return'
                    " ;;\n"
                )
    groups = "".join(
        _BASH_GROUP.format(group=name, members=" ".join(members(name))) for name in GROUPS
    )
    return _BASH.format(
        commands=" ".join(top_level()),
        groups=f'{groups}        ?*) offered="" ;;\n',
        leading=" ".join(("-h", "--help", "--version", *_leading_options())),
        choices=choices,
        flags=flags,
        topics=topics,
    )


def _fish_script() -> str:
    """Return the completion script for fish."""
    commands = " ".join(top_level())
    lines = [f"complete -c polygraphy -f -n __fish_use_subcommand -a '{commands}'"]
    lines += [
        f"complete -c polygraphy -n 'not __fish_seen_subcommand_from {commands}' {_fish_flag(flag)}"
        for flag in _leading_options()
    ]
    for name in GROUPS:
        inside = (
            f"__fish_seen_subcommand_from {name}; and not __fish_seen_subcommand_from"
            f" {' '.join(members(name))}"
        )
        lines.append(f"complete -c polygraphy -f -n '{inside}' -a '{' '.join(members(name))}'")
    for command in COMMANDS:
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        words = " ".join(topics_of(description_of(command)[3]))
        requested_text = f"__fish_seen_subcommand_from help; and {condition}"
        lines.append(f"complete -c polygraphy -f -n '{requested_text}' -a '{words}'")
        for flags, choices, text in _options(command):
            spelled = " ".join(map(_fish_flag, flags))
            allowed = f" -x -a '{' '.join(choices)}'" if choices else ""
            quoted = text.split(". ")[0].replace("\\", "\\\\").replace("'", "\\'")
            lines.append(
                f"complete -c polygraphy -n '{condition}' {spelled}{allowed} -d '{quoted}'"
            )
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    """Return the declaration of a flag in a completion script for fish: ``-l long`` or ``-s s``."""
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
