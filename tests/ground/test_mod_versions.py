"""Versions and requirements."""

from __future__ import annotations

import copy
import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging import version as reference

from polygraphy.mod import LATEST_VERSION, Version, version
from polygraphy.mod.versions import Requirement


def texts() -> st.SearchStrategy[str]:
    """Versions as PEP 440 allows them."""
    numbers = st.integers(0, 12)
    separator = st.sampled_from(["", ".", "-", "_"])
    phase = st.sampled_from(["a", "b", "c", "rc", "alpha", "beta", "pre", "preview", "RC", "Alpha"])

    def part(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        number = st.one_of(st.just(""), st.builds("{}{}".format, separator, numbers))
        return st.one_of(st.just(""), st.builds("{}{}{}".format, separator, words, number))

    post = st.one_of(
        part(st.sampled_from(["post", "rev", "r", "POST"])), st.builds("-{}".format, numbers)
    )
    return st.builds(
        "{}{}{}{}{}{}{}".format,
        st.sampled_from(["", "", "v", " "]),
        st.sampled_from(["", "", "1!"]),
        st.lists(numbers, min_size=1, max_size=4).map(lambda release: ".".join(map(str, release))),
        part(phase),
        post,
        part(st.just("dev")),
        st.sampled_from(["", "", "+cu12", "+local.1"]),
    ).filter(is_valid)


def is_valid(text: str) -> bool:
    try:
        reference.Version(text)
    except reference.InvalidVersion:
        return False
    return True


def public(text: str) -> reference.Version:
    return reference.Version(reference.Version(text).public)


class TestVersion:
    def test_order(self) -> None:
        ordered = "1.0.dev1 1.0a1.dev2 1.0a1 1.0b1 1.0rc1 1.0rc2 1.0 1.0.post1.dev1 1.0.post1 1.1"
        versions = [version(text) for text in ordered.split()]
        assert sorted(set(versions)) == versions
        assert all(a < b for a, b in itertools.pairwise(versions))

    @given(texts(), texts())
    def test_as_the_reference(self, first: str, second: str) -> None:
        a, b = version(first), version(second)
        expected_a, expected_b = public(first), public(second)
        assert (a < b) is (expected_a < expected_b)
        assert (a <= b) is (expected_a <= expected_b)
        assert (a > b) is (expected_a > expected_b)
        assert (a >= b) is (expected_a >= expected_b)
        assert (a == b) is (expected_a == expected_b)
        assert (a != b) is (expected_a != expected_b)
        assert tuple(a) == expected_a.release
        if a == b:
            assert hash(a) == hash(b)

    @given(st.text(), st.text())
    def test_any_two_texts_compare(self, first: str, second: str) -> None:
        a, b = version(first), version(second)
        assert (a < b) + (a == b) + (a > b) == 1

    @pytest.mark.parametrize("text", ["", "a.b", "unknown"])
    def test_what_is_no_version_is_below_all(self, text: str) -> None:
        assert version(text) < version("0.dev0")
        assert tuple(version(text)) == ()

    def test_local_part_is_ignored(self) -> None:
        assert version("2.1.0+cu121") == version("2.1.0")

    @pytest.mark.parametrize("rest", ["-custom build", "foo", ".x", "rc1foo", " (git)", "."])
    def test_what_follows_is_ignored(self, rest: str) -> None:
        assert version("10.0.0.6" + rest) == version("10.0.0.6")

    def test_is_a_tuple_of_the_numbers(self) -> None:
        found = version("10.0.1.6")
        assert isinstance(found, tuple)
        assert (found[0], found[:2], len(found)) == (10, (10, 0), 4)

    def test_compares_with_tuples_and_texts(self) -> None:
        assert version("1.20") >= (1, 20)
        assert version("1.20") == (1, 20, 0)
        assert version("1.20rc1") < (1, 20)
        assert version("1.20") > (1, 19)
        assert version("1.20") > "1.19"
        assert Version((1, 20)) == version("1.20")

    def test_anything_else_is_not_equal(self) -> None:
        assert version("1") != 1
        assert version("1") != ("1",)
        with pytest.raises(TypeError):
            _ = version("1") < 1

    def test_copies(self) -> None:
        original = version("1.0rc1")
        for other in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
            assert other == original
            assert other < version("1.0")
            assert type(other) is Version


class TestRequirement:
    @pytest.mark.parametrize(
        ("text", "good", "bad"),
        [
            ("numpy>=1.20", ["1.20", "2.0", "1.20.post1"], ["1.19.5", "1.20rc1"]),
            ("numpy >= 1.20, < 2", ["1.26.4"], ["2.0.1", "1.0"]),
            ("numpy==1.20", ["1.20.0", "1.20+local"], ["1.20.1"]),
            ("numpy!=1.20", ["1.21"], ["1.20.0"]),
            ("numpy>1.20", ["1.20.1"], ["1.20"]),
            ("numpy<=1.20", ["1.20", "1.20rc1"], ["1.20.1"]),
            ("numpy", ["0.1", "unknown"], []),
            ("numpy" + LATEST_VERSION, ["0.1"], []),
        ],
    )
    def test_accepts(self, text: str, good: list[str], bad: list[str]) -> None:
        requirement = Requirement(text)
        assert requirement.module == "numpy"
        assert [requirement.accepts(found) for found in good] == [True] * len(good)
        assert [requirement.accepts(found) for found in bad] == [False] * len(bad)

    def test_what_the_installer_is_reported(self) -> None:
        assert Requirement("numpy >= 1.20, < 2").package() == "numpy>=1.20,<2"
        assert Requirement("onnx.helper>=1.14").package() == "onnx>=1.14"
        assert Requirement("cv2>=4").package("opencv-python") == "opencv-python>=4"
        assert Requirement("numpy" + LATEST_VERSION).package() == "numpy"

    @pytest.mark.parametrize(
        "text", ["numpy~=1.20", "numpy=1", "numpy>=", "numpy>=x", "numpy>=1,oops", "numpy==1.*"]
    )
    def test_malformed(self, text: str) -> None:
        with pytest.raises(ValueError, match="Expected a version specifier such as"):
            Requirement(text)
