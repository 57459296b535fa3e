"""Messages about settings name the flags that give them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from polygraphy.adapters.tensorrt.engine.config_settings import ATTRIBUTES, FLAGS
from polygraphy.adapters.tensorrt.library import module
from polygraphy.adapters.tensorrt.library.capabilities import FEATURES
from polygraphy.adapters.tensorrt.library.module import flag_of, setting_of
from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.cli.declare.option import options_of


def flags_of_commands() -> set[str]:
    groups = {group for name in COMMANDS for group in load_command(name).groups}
    return {flag for group in groups for option in options_of(group) for flag in option.flags}


def named_in_messages() -> Iterator[str]:
    """Yield the arguments that the adapter writes as a text."""
    for path in Path(module.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setting_of"
            if is_call and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


def test_a_setting_is_named_as_both_kinds_of_users_write_it() -> None:
    assert setting_of("use_dla") == "use_dla=True (--use-dla)"
    assert setting_of("memory_pool_limits", "DLA") == "memory_pool_limits=DLA (--pool-limit)"


def test_every_flag_in_a_message_is_one() -> None:
    arguments = {*FLAGS, *ATTRIBUTES, *named_in_messages(), *module._OTHER_FLAGS}
    known = flags_of_commands()
    assert len(arguments) > 20
    assert {argument for argument in arguments if flag_of(argument) not in known} == set()
    words = " ".join(feature.instead for feature in FEATURES.values()).split()
    reported = {word.strip("().,") for word in words if word.startswith("(--")}
    assert reported and reported <= known
