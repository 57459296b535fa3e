"""Every flag of every command reaches the program that the command stands for.

`tests/cli/flags/words.py` uses each flag once; what the program then says and otherwise does not is
kept in `tests/data/flag_facts.json`, to be read by people who change it. POLYGRAPHY_UPDATE_GOLDEN=1
writes that file again.
"""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Flag, OrderedFlags
from polygraphy.cli.declare.option import Option, Options, Values
from polygraphy.cli.main import _without_save_option
from polygraphy.cli.parser import parse
from polygraphy.codegen.source import quote_command
from tests.cli.flags.words import (
    BASES,
    CHANGED_ON_THE_WAY,
    CHANGES_NOTHING,
    GROUP_BASES,
    REFUSED,
    WITHOUT_EFFECT,
    WORDS,
    WORDS_OF_COMMANDS,
)
from tests.support.program_facts import constants_of, facts_of

FACTS = Path(__file__).parents[1] / "data" / "flag_facts.json"
_SAVED = ("ScriptOptions.gen_script", "TemplateOptions.output")
"""Options that say where the program is saved."""


def options(command: str) -> Iterator[tuple[str, type[Options], Option]]:
    """Yield the options of a command, each with its key and its group."""
    loaded = load_command(command)
    for group in loaded.groups:
        for option in loaded.options_of(group):
            yield f"{group.__name__}.{option.name}", group, option


def lines_of(command: str, key: str) -> tuple[list[str], list[str]]:
    """Return the words of a command line without an option, and with it."""
    group, _, name = key.partition(".")
    base = GROUP_BASES.get(group, {}).get(command, BASES[command])
    entry = WORDS_OF_COMMANDS.get((command, key)) or WORDS[group][name]
    before, _, words = entry.rpartition(" + ")
    without = _changed(base, before)
    return without.split(), _changed(without, words).split()


def _changed(base: str, words: str) -> str:
    old, arrow, new = words.partition(" > ")
    if not arrow:  # What follows --check belongs to the command that it names.
        own, check, checked = base.partition(" --check ")
        return f"{own} {words}{check}{checked}"
    assert old in base, f"{old!r} is not in {base!r}"
    return base.replace(old, new, 1)


@functools.cache
def parsed(command: str, words: tuple[str, ...]) -> Values:
    return parse(load_command(command), words)


@functools.cache
def facts(command: str, words: tuple[str, ...]) -> frozenset[str]:
    line = quote_command(["polygraphy", *command.split(), *_without_save_option(list(words))])
    return frozenset(facts_of(load_command(command).render(parsed(command, words), line)))


def new_facts(command: str, key: str) -> list[str]:
    """Return what the program says with an option only; with a minus, what it no longer says."""
    without, given = (facts(command, tuple(words)) for words in lines_of(command, key))
    return sorted(given - without) or sorted(f"-{each}" for each in without - given)


@functools.cache
def kept() -> dict[tuple[str, str], list[str]]:
    """Return the facts that are kept, by command and option."""
    listed = json.loads(FACTS.read_text(encoding="utf-8"))
    return {
        (command, key): entry["facts"]
        for key, entries in listed.items()
        for entry in entries
        for command in entry["commands"]
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_used_once(command: str) -> None:
    missing = [
        key
        for key, group, option in options(command)
        if (command, key) not in WORDS_OF_COMMANDS
        and option.name not in WORDS.get(group.__name__, {})
    ]
    assert command in BASES, "give it a command line in tests/cli/flags/words.py"
    assert missing == [], "give them words in tests/cli/flags/words.py"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.slow
def test_every_flag_reaches_the_program(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for key, _, option in options(command):
        if key in _SAVED or (command, key) in REFUSED:
            continue
        found[key] = new_facts(command, key)
        said = capsys.readouterr().err
        if (command, key) in WITHOUT_EFFECT:
            assert option.flags[0] in said, f"{key} has no effect, and nothing says so"
        elif key not in CHANGES_NOTHING:
            assert found[key], f"{key} has no effect"
    if os.environ.get("POLYGRAPHY_UPDATE_GOLDEN"):
        return
    assert found == {key: kept().get((command, key)) for key in found}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_value_stands_in_the_program(command: str) -> None:
    lost = {}
    for key, group, option in options(command):
        skipped = key in _SAVED or key in CHANGES_NOTHING or key in CHANGED_ON_THE_WAY
        skipped |= (command, key) in WITHOUT_EFFECT | REFUSED
        if skipped or isinstance(option.kind, (Flag, OrderedFlags)):
            continue
        values: Any = parsed(command, tuple(lines_of(command, key)[1]))
        given = {repr(leaf) for leaf in _leaves(getattr(values[group], option.name))}
        there = set().union(*map(constants_of, new_facts(command, key)))
        if not given <= there:
            lost[key] = given - there
    assert lost == {}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (name for name in value if name)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each)
    elif value is not None and not isinstance(value, dict):
        yield value


@pytest.mark.parametrize(("command", "key"), REFUSED)
def test_what_a_command_cannot_do_is_refused(command: str, key: str) -> None:
    with pytest.raises(CommandLineError, match="cannot"):
        new_facts(command, key)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_program_is_saved_where_that_is_asked_for(command: str) -> None:
    loaded = load_command(command)
    keys = [key for key, _, _ in options(command) if key in _SAVED]
    assert len(keys) == 1
    without, given = (parse(loaded, words) for words in lines_of(command, keys[0]))
    assert loaded.destination(given) == "p.py"
    assert loaded.destination(without) in (None, "-")


def test_every_spelling_of_a_flag_is_the_same_flag() -> None:
    seen = set()
    for command in COMMANDS:
        for key, group, option in options(command):
            if key in seen or isinstance(option.kind, OrderedFlags):
                continue
            seen.add(key)
            words = lines_of(command, key)[1]
            [first, *_] = [flag for flag in option.flags if flag in words] or [""]
            for flag in option.flags:
                changed = [flag if word == first else word for word in words]
                same = [parsed(command, tuple(each))[group] for each in (words, changed)]
                assert same[0] == same[1], f"{flag} of {command}"


def test_the_kept_facts_are_those_of_flags_that_there_are() -> None:
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for command in COMMANDS:
        for key, _, _ in options(command):
            if key in _SAVED or (command, key) in REFUSED:
                continue
            added = (
                new_facts(command, key)
                if os.environ.get("POLYGRAPHY_UPDATE_GOLDEN")
                else kept().get((command, key), [])
            )
            same = [entry for entry in by_key[key] if entry["facts"] == added]
            if same:
                same[0]["commands"].append(command)
            else:
                by_key[key].append({"commands": [command], "facts": added})
    text = _formatted(by_key)
    if os.environ.get("POLYGRAPHY_UPDATE_GOLDEN"):
        FACTS.write_text(text, encoding="utf-8")
    assert FACTS.read_text(encoding="utf-8") == text


def _formatted(by_key: dict[str, list[dict[str, Any]]]) -> str:
    """Return JSON with a line for each entry."""
    listed = [
        f"{json.dumps(key)}: [\n  " + ",\n  ".join(map(json.dumps, entries)) + "\n ]"
        for key, entries in by_key.items()
    ]
    return "{\n " + ",\n ".join(listed) + "\n}\n"
