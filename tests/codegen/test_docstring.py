"""The docstring of a program holds any command line in printable characters."""

from __future__ import annotations

import ast
import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from polygraphy.codegen.source import docstring, quote_command

words = st.lists(st.text(min_size=0, max_size=12), max_size=5)


@given(words)
@example(["\\", '"""', "a b", "'", "\n", "\udc80", "{{ x }}", "\u2028", "$'x'"])
def test_the_docstring_is_one_constant_that_holds_the_command(command: list[str]) -> None:
    source = str(docstring("Compare a model.", quote_command(command)))
    module = ast.parse(source)
    assert len(module.body) == 1
    text = ast.literal_eval(source)
    assert text == f"Compare a model.\n\n{quote_command(command)}\n"
    assert all(character.isprintable() for character in quote_command(command))


@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=9)))
def test_a_shell_reads_the_printable_words_back(command: list[str]) -> None:
    printable = [word for word in command if word.isprintable()]
    assert shlex.split(quote_command(printable)) == printable


def test_words_that_a_shell_takes_as_they_are_stay_as_they_are() -> None:
    command = ["polygraphy", "run", "a.onnx", "--rtol", "out:1e-3", "--seed=3", "a,b@c"]
    assert quote_command(command) == " ".join(command)


@given(st.sampled_from(sorted("*?[]{}~")), st.text(st.characters(codec="ascii", categories=["L"])))
def test_words_that_a_shell_would_expand_are_quoted(special: str, text: str) -> None:
    for word in (special + text, text + special):
        assert quote_command([word]) == f"'{word}'"
    assert quote_command(["=" + text]) == f"'={text}'"
