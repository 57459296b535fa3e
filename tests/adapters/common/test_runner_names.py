from __future__ import annotations

import re
import subprocess
import sys

import pytest

from polygraphy.backend.base import BaseRunner
from polygraphy.domain.results.results import kind_of_runner, label_of_runner


def test_runners_of_processes_started_together_have_names_of_their_own() -> None:
    code = "from polygraphy.backend.base import BaseRunner; print(BaseRunner(prefix='x').name)"
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    names = [process.communicate()[0].strip() for process in started]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"x-N0-\d\d/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6}", name)
        assert kind_of_runner(name) == "x"
        assert label_of_runner(name) == name.partition(".")[0]


@pytest.mark.parametrize("name", ["mine", "a.5", "x-N0-11/22/26-19:09:01", "0.5-N1"])
def test_other_names_are_shown_as_they_are(name: str) -> None:
    assert label_of_runner(name) == name


def test_a_prompt_shows_the_class_and_the_name() -> None:
    assert repr(BaseRunner(name="mine")) == "BaseRunner(name='mine')"
