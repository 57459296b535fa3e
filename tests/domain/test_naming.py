"""Names and patterns."""

from __future__ import annotations

import shlex
import subprocess
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.tensors.naming import (
    escape_command,
    format_time,
    is_pattern,
    match_name,
    select_names,
)
from tests.support.examples import scaled

names = st.text("ab[]*?", min_size=1, max_size=4)


@given(st.lists(names, min_size=1, unique=True), st.data())
def test_a_name_means_itself_whatever_it_looks_like(known: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(known))
    assert select_names([name], known, unless=known) == {name}


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, unique=True), names)
def test_a_pattern_means_what_it_matches(known: list[str], word: str) -> None:
    expected = {name for name in known if name == word or fnmatchcase(name, word)}
    if not expected:
        with pytest.raises(UnknownNameError):
            select_names([word], known)
    else:
        assert select_names([word], known) == expected


def test_patterns_pass_over_what_only_counts_in_full() -> None:
    assert select_names(["*"], ["a", "b"], unless={"b"}) == {"a"}
    assert select_names(["*", "b"], ["a", "b"], unless={"b"}) == {"a", "b"}
    with pytest.raises(UnknownNameError):
        select_names(["b*"], ["a", "b"], unless={"b"})


def test_case_counts() -> None:
    with pytest.raises(UnknownNameError) as error:
        select_names(["Conv"], ["conv"], text="Layer")
    assert "Layer 'Conv' does not exist" in str(error.value)
    assert error.value.matches == ("conv",)


def test_what_a_pattern_is() -> None:
    assert [word for word in ("a", "a*", "a?", "[a]", "a.b") if is_pattern(word)] == [
        "a*", "a?", "[a]",
    ]  # fmt: skip


def test_a_word_means_the_only_tensor_of_an_operation() -> None:
    assert match_name("image", ["image:0", "mask:0"]) == "image:0"
    assert match_name("image", ["image:0", "image"]) == "image"
    assert match_name("split", ["split:0", "split:1"]) is None
    assert match_name("image", ["image:x", "image:", "images:0"]) is None
    assert match_name("", [":0"]) is None
    assert select_names(["image"], ["image:0", "mask:0"]) == {"image:0"}
    with pytest.raises(UnknownNameError):
        select_names(["split"], ["split:0", "split:1"])


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"), max_size=9))
)
@settings(max_examples=scaled(40), deadline=None)
def test_a_shell_reads_what_is_shown_of_a_command(words: list[str]) -> None:
    command = shlex.join(words)
    shown = escape_command(command)
    assert "\n" not in shown and (shown == command or shown.isprintable() or "\t" in shown)
    if not any(word.endswith("\n") for word in words):
        line = "given() { printf '%s\\0' . \"$@\"; }; given " + shown
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
        assert done.stdout.decode().split("\0")[1:-1] == words


def test_times_are_in_milliseconds_or_seconds() -> None:
    shown = {0.0486: "48.6 ms", 0.9996: "1 s", 1.58: "1.58 s", 999.6: "1,000 s", 2e-7: "0.0002 ms"}
    assert {seconds: format_time(seconds) for seconds in shown} == shown
