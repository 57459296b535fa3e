"""What everything that looks at a machine promises, asked of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from polygraphy.application.doctor import doctor
from polygraphy.binding import bind, function_for
from polygraphy.domain.environment import Environment, Section
from polygraphy.ports.machine import sections_of
from polygraphy.ports.reporting import Reports

KEYS = ("machine", "openvino", "packages", "providers", "tensorrt")


@pytest.fixture(params=KEYS)
def look(request: pytest.FixtureRequest) -> Callable[[], list[Section]]:
    return function_for(sections_of, request.param)


def test_facts_and_remarks_are_texts(look: Callable[[], list[Section]]) -> None:
    for section in look():
        assert isinstance(section, Section)
        assert section.title
        for name, fact in section.facts:
            assert name and isinstance(fact, str)
        for remark in section.remarks:
            assert remark.strip() == remark
            assert remark


def test_looking_changes_nothing(look: Callable[[], list[Section]]) -> None:
    before = dict(os.environ)
    titles = [section.title for section in look()]
    assert [section.title for section in look()] == titles
    assert dict(os.environ) == before


def test_everybody_is_asked_once_and_all_is_reported() -> None:
    reports: Any = Mock(spec=Reports)
    with ExitStack() as stack:
        stack.enter_context(bind(Reports, reports))
        for key in KEYS:
            stack.enter_context(
                bind(sections_of, partial(lambda title: [Section(title, ())], key), key)
            )
        doctor()
    [(environment,)] = [call.args for call in reports.environment.call_args_list]
    assert isinstance(environment, Environment)
    assert sorted(section.title for section in environment.sections) == sorted(KEYS)
    assert [call[0] for call in reports.method_calls] == ["environment"]
