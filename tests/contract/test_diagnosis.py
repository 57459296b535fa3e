"""What everything that looks at a machine promises, asked of each."""

from __future__ import annotations

import os

import pytest

from polygraphy.adapters.fake import FixedDiagnosis, RecordingReports
from polygraphy.application.doctor import doctor
from polygraphy.binding import bind, resolve
from polygraphy.domain.environment import Environment, Section
from polygraphy.ports.machine import Diagnosis
from polygraphy.ports.reporting import Reports

KEYS = ("machine", "packages", "providers", "tensorrt")
FOUND = Section("Found", (("what", "something"),))


@pytest.fixture(params=["fake", *KEYS])
def diagnosis(request: pytest.FixtureRequest) -> Diagnosis:
    return FixedDiagnosis([FOUND]) if request.param == "fake" else resolve(Diagnosis, request.param)


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
    from contextlib import ExitStack

    with ExitStack() as stack:
        reports = stack.enter_context(bind(Reports, RecordingReports()))
        for key in KEYS:
            stack.enter_context(bind(Diagnosis, FixedDiagnosis([Section(key, ())]), key))
        doctor()
    ((kind, environment),) = reports.reports
    assert kind == "environment"
    assert isinstance(environment, Environment)
    assert sorted(section.title for section in environment.sections) == sorted(KEYS)
