"""Statements of Python that decide what a module computes, and runs in which they decide something
else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.torch import decisions
from polygraphy.adapters.torch.decisions import call_with_outcome, record_decisions
from polygraphy.adapters.torch.program_inputs import input_names
from polygraphy.domain.errors import InputError

MODULE = """\
def forward(x, scale=None, depth=2):
    if scale is not None:
        x = x * scale
    if depth > 1:
        x = x + 1
    count = int(x)
    if (
        count > 5
    ):
        x = x - 5
    else:
        x = x + 100
    while x > 3 and count:
        x = x / 2
    for step in range(count):
        x = x + 1
    if x < 0:
        return x
    y = -x if x > 50 else x
    return y
"""


class Tensor(float):
    """A number that counts as a tensor."""

    def __add__(self, other: float) -> Tensor:
        return Tensor(float(self) + other)

    def __sub__(self, other: float) -> Tensor:
        return Tensor(float(self) - other)

    def __truediv__(self, other: float) -> Tensor:
        return Tensor(float(self) / other)

    def __neg__(self) -> Tensor:
        return Tensor(-float(self))


@pytest.fixture
def forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    nn = SimpleNamespace(Parameter=type("Parameter", (), {}))
    monkeypatch.setattr(decisions, "torch", SimpleNamespace(Tensor=Tensor, nn=nn))
    path, names = tmp_path / "net.py", dict[str, Any]()
    path.write_text(MODULE)
    exec(compile(MODULE, str(path), "exec"), names)
    return names["forward"]


def test_statements_that_ask_for_the_data_are_known_with_what_they_decide(forward: Any) -> None:
    tracer = sys.gettrace()
    found = {one.line: one for one in record_decisions(lambda: forward(Tensor(7)))}
    assert sys.gettrace() is tracer
    follows = {line: one.outcomes for line, one in found.items() if one.follows_data}
    assert follows == {8: (1,), 13: (0,), 15: (8,), 17: (0,), 19: ()}
    assert not found[4].follows_data  # An argument that is a number is the same for all data.
    assert found[15].text == "line 15 loops over `range(count)`"
    assert [line for line, decision in found.items() if decision.is_loop] == [13, 15]
    assert (found[8].others, found[15].others, found[17].others) == ((0,), (), (1,))


def test_statements_decide_something_else(forward: Any) -> None:
    def call() -> Any:
        return forward(Tensor(7))

    found = {one.line: one for one in record_decisions(call)}
    assert call() == 11.0
    assert call_with_outcome(found[8], 0, call) == 9.6875
    assert call_with_outcome(found[13], 1, call) == 9.5
    assert call_with_outcome(found[17], 1, call) == 11.0
    with pytest.raises(ValueError):
        call_with_outcome(found[8], 0, lambda: None)


def test_an_input_that_only_the_program_reads_is_named_with_what_to_do() -> None:
    unknown = SimpleNamespace(dtype=None, shape=None)
    inputs = {"x": unknown, "scale": unknown}
    program = SimpleNamespace(inputs=lambda: inputs, accept=lambda names: None)
    with pytest.raises(InputError, match="has no input for 'scale' of the program: the exporter"):
        input_names(program, {"x": np.zeros(3)})
