"""What everything that looks at a machine promises, asked of each."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock

import pytest

from polygraphy.application.doctor import doctor
from polygraphy.binding import bind, resolve
from polygraphy.domain.environment import Environment, Section
from polygraphy.ports.machine import Diagnosis
from polygraphy.ports.reporting import Reports

KEYS = ("machine", "openvino", "packages", "providers", "tensorrt")


@pytest.fixture(params=KEYS)
def diagnosis(request: pytest.FixtureRequest) -> Diagnosis:
    return resolve(Diagnosis, request.param)


class Fixed:
    def __init__(self, key: str) -> None:
        self.key = key

    def sections(self) -> list[Section]:
        return [Section(self.key, ())]


def test_facts_and_remarks_are_texts(diagnosis: Diagnosis) -> None:
    for section in diagnosis.sections():
        assert isinstance(section, Section)
        assert section.title
        for name, fact in section.facts:
            assert name and isinstance(fact, str)
        for remark in section.remarks:
            assert remark.strip() == remark
            assert remark


def test_looking_changes_nothing(diagnosis: Diagnosis) -> None:
    before = dict(os.environ)
    titles = [section.title for section in diagnosis.sections()]
    assert [section.title for section in diagnosis.sections()] == titles
    assert dict(os.environ) == before


def test_everybody_is_asked_once_and_all_is_reported() -> None:
    reports: Any = Mock(spec=Reports)
    with ExitStack() as stack:
        stack.enter_context(bind(Reports, reports))
        for key in KEYS:
            stack.enter_context(bind(Diagnosis, Fixed(key), key))
        doctor()
    [(environment,)] = [call.args for call in reports.environment.call_args_list]
    assert isinstance(environment, Environment)
    assert sorted(section.title for section in environment.sections) == sorted(KEYS)
    assert [call[0] for call in reports.method_calls] == ["environment"]
