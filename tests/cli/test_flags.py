"""The flags that people's commands use are all there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polygraphy.cli.commands.listing import load_command
from polygraphy.cli.declare.option import options_of

FLAGS = json.loads((Path(__file__).parents[1] / "data" / "flags.json").read_text())


@pytest.mark.parametrize("command", FLAGS)
def test_every_flag_that_is_in_use_is_declared(command: str) -> None:
    declared = {
        flag
        for group in load_command(command).groups
        for o in options_of(group)
        for flag in o.flags
    }
    assert set(FLAGS[command]) - declared - {"-h"} == set()


@pytest.mark.parametrize("command", FLAGS)
def test_no_flag_is_declared_twice(command: str) -> None:
    flags = [
        flag
        for group in load_command(command).groups
        for o in options_of(group)
        for flag in o.flags
    ]
    assert len(flags) == len(set(flags))
