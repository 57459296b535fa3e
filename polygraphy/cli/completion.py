"""Completion for shells, made from what the help of each command says."""

from __future__ import annotations

from polygraphy.cli.commands.listing import COMMANDS, GROUPS, members, top_level
from polygraphy.cli.help import described

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_polygraphy() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}"
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "{commands}" -- "$current"))
        return
    fi
    case "$command" in
{groups}    esac
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
            if (( COMP_CWORD == 2 )); then
                COMPREPLY=($(compgen -W "{members}" -- "$current"))
                return
            fi
            command="$command ${{COMP_WORDS[2]}}" ;;
"""


def script(shell: str) -> str:
    """Return what a shell has to read to complete commands, options and their choices."""
    if shell == "fish":
        return _fish()
    bash = _bash()
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _options(command: str) -> list[tuple[list[str], list[str], str]]:
    """Return the options of a command: spellings, choices (if they are a short list), and text."""
    options: list[tuple[list[str], list[str], str]] = [
        (["-h", "--help"], [], "Show this text and exit.")
    ]
    for _, _, entries in described(command)[3]:
        for declared, text in entries:
            words = declared.split()
            flags = [word.rstrip(",") for word in words if word.startswith("-")]
            metavar = next((word for word in words if not word.startswith("-")), "")
            choices = metavar[1:].partition("}")[0].split(",") if metavar.startswith("{") else []
            if flags:
                options.append((flags, choices, text))
    return options


def _bash() -> str:
    choices, flags = "", ""
    for command in COMMANDS:
        options = _options(command)
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
    return _BASH.format(commands=" ".join(top_level()), groups=groups, choices=choices, flags=flags)


def _fish() -> str:
    commands = " ".join(top_level())
    lines = [f"complete -c polygraphy -f -n __fish_use_subcommand -a '{commands}'"]
    for name in GROUPS:
        inside = (
            f"__fish_seen_subcommand_from {name}; and not __fish_seen_subcommand_from"
            f" {' '.join(members(name))}"
        )
        lines.append(f"complete -c polygraphy -f -n '{inside}' -a '{' '.join(members(name))}'")
    for command in COMMANDS:
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        for flags, choices, text in _options(command):
            spelled = " ".join(
                f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in flags
            )
            allowed = f" -x -a '{' '.join(choices)}'" if choices else ""
            quoted = text.split(". ")[0].replace("\\", "\\\\").replace("'", "\\'")
            lines.append(
                f"complete -c polygraphy -n '{condition}' {spelled}{allowed} -d '{quoted}'"
            )
    return "\n".join(lines) + "\n"
