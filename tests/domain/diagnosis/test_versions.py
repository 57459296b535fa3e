"""Between which versions a fault came and went."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.diagnosis.versions import Span, version_key, wrong_span
from polygraphy.domain.diagnosis.words import evidence
from tests.support.examples import scaled

VERSIONS = [f"1.{minor}.0" for minor in range(2, 22)]


@settings(max_examples=scaled(200))
@given(st.data())
def test_a_span_is_found_with_few_runs(data: st.DataObject) -> None:
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, 19)] * 2)))
    here = data.draw(st.integers(first, last))
    asked: list[str] = []

    def is_right(version: str) -> bool:
        asked.append(version)
        return not first <= VERSIONS.index(version) <= last

    given_versions = data.draw(st.permutations(VERSIONS))
    before = VERSIONS[first - 1] if first else None
    after = VERSIONS[last + 1] if last < 19 else None
    found = wrong_span(given_versions, VERSIONS[here], is_right)
    assert found == Span(VERSIONS[first], VERSIONS[last], before, after)
    if before and after:
        assert len(asked) <= 12


def test_a_fault_that_came_twice_is_followed_from_the_version_that_is_wrong() -> None:
    wrong = {"1.3.0", "1.4.0", "1.20.0", "1.21.0"}
    found = wrong_span(VERSIONS, "1.4.0", lambda version: version not in wrong)
    assert (found.before, found.first, found.last, found.after) == (
        "1.2.0", "1.3.0", "1.4.0", "1.5.0",
    )  # fmt: skip


def test_versions_are_sorted_as_they_were_released() -> None:
    assert sorted(["1.10.0", "1.9.1", "1.9.0"], key=version_key) == ["1.9.0", "1.9.1", "1.10.0"]


def test_words_say_what_was_tried() -> None:
    span = Span("1.17.0", "1.19.2", "1.16.3", "1.20.1")
    assert str(evidence.versions_tried(span)) == (
        "Versions tried: correct in 1.16.3, incorrect from 1.17.0 to 1.19.2, correct from 1.20.1."
    )
    last = evidence.versions_tried(Span("1.2.0", "1.2.0", None, None))
    assert str(last).endswith("correct in no newer version.")
