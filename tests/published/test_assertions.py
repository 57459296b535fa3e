"""The assertions, without pytest's plugin knowing of them."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.files.small.goldens import (
    MOST_BYTES,
    Golden,
    golden_in,
    hash_of_inputs,
    save_golden,
)
from polygraphy.assertions import (
    OutputsDiffer,
    _flags_of_all,
    assert_close,
    assert_matches_golden,
    assert_outputs_match,
)
from polygraphy.comparator import IterationResult, RunResults
from polygraphy.exception import InputError, PolygraphyException, UsageError
from polygraphy.logger import G_LOGGER
from tests.support.decoders import decoder

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = str(DIGITS / "digits.onnx")


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the assertions see no session of pytest."""
    import pytest_polygraphy

    monkeypatch.setattr(pytest_polygraphy, "current", None)


ARRAYS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20)


@given(values=ARRAYS, dtype=st.sampled_from(["float16", "float32", "float64"]))
def test_an_array_is_close_to_itself_and_to_what_rounding_makes_of_it(
    values: list[float], dtype: str
) -> None:
    array = np.array(values, dtype)
    assert_close(array, array)
    assert_close(np.nextafter(array, np.array(np.inf, dtype)), array)


@given(values=ARRAYS, where=st.integers(0, 19))
def test_an_element_that_is_off_by_more_is_named(values: list[float], where: int) -> None:
    expected = np.array(values, np.float32)
    actual = expected.copy()
    actual[where % actual.size] += 10 + abs(actual[where % actual.size])
    with pytest.raises(OutputsDiffer, match=rf"at \[{where % actual.size}\]"):
        assert_close(actual, expected)


def test_arrays_of_several_names_are_compared() -> None:
    assert_close({"a": [1, 2], "b": np.float32(3)}, {"a": np.array([1, 2]), "b": np.float32(3)})
    with pytest.raises(OutputsDiffer, match="first to fail: 'b'"):
        assert_close({"a": [1], "b": [2]}, {"a": [1], "b": [3]})
    with pytest.raises(OutputsDiffer):
        assert_close({"a": [1]}, {"a": [1], "b": [3]})
    assert_close([1.0], [1.05], atol=0.1)
    assert_close(3, 3)
    for nothing, name in ((None, "array"), ({"a": None}, "a")):  # A function without `return`.
        with pytest.raises(InputError, match=f"'{name}' is None, not an array"):
            assert_close(nothing, nothing)
    with pytest.raises(UsageError, match="must be a number, not True"):
        assert_close([1.0], [1.5], rtol=True)


@pytest.mark.parametrize("padding", [0, -1])
def test_scores_beside_boxes_are_judged_by_their_size_among_missing_rows(padding: int) -> None:
    random = np.random.RandomState(5)
    rows = np.full((1, 100, 6), padding, np.float16)
    rows[0, :20, :4] = random.rand(20, 4) * 640
    rows[0, :20, 4] = 0.25 + 0.7 * random.rand(20)
    rows[0, :20, 5] = random.randint(0, 80, 20)
    lost = rows.copy()
    lost[0, :20, 4] = 0
    assert_close(np.nextafter(rows, np.float16(np.inf)), rows)
    with pytest.raises(OutputsDiffer, match=r"part array\[:, :, 4\]"):
        assert_close(lost, rows)


def test_a_model_that_backends_agree_about_passes_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = G_LOGGER.module_severity
    assert_outputs_match(MODEL, shapes={"image": (2, 1, 8, 8)}, seeds=2)
    assert_outputs_match(
        onnx.load(MODEL), ["onnxrt --graph-optimization-level DISABLE_ALL", "onnxrt"]
    )
    assert capfd.readouterr() == ("", "")
    assert G_LOGGER.module_severity == before


def test_settings_of_one_backend_have_names_and_the_next_command_keeps_them_apart() -> None:
    plain = "onnxrt --graph-optimization-level DISABLE_ALL"
    with pytest.raises(OutputsDiffer, match=r"plain vs\. slow"):
        assert_outputs_match(MODEL, {"plain": plain, "slow": "onnx"}, rtol=0, atol=0)
    flags = ["--runner", f"onnxrt=--{plain}", "--runner", "onnxrt-2=--onnxrt"]
    assert [*chain(*_flags_of_all([plain, "onnxrt"]))] == flags
    assert [*chain(*_flags_of_all(["onnxrt", "onnx"]))] == ["--onnxrt", "--onnx"]


def test_each_backend_runs_the_steps_of_a_decoder_on_its_own_states() -> None:
    assert_outputs_match(decoder(), steps=4)
    with pytest.raises(OutputsDiffer) as caught:
        assert_outputs_match(decoder(), ["onnxrt", "onnx"], steps=4, rtol=0, atol=0)
    assert "Step 0 is the first that differs" in str(caught.value)


def test_a_golden_holds_later_outputs_to_those_that_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PolygraphyException, match=r"The golden file .* does not exist") as caught:
        assert_matches_golden(MODEL, "digits", folder=tmp_path)
    assert "--polygraphy-update-golden" in str(caught.value)
    with pytest.raises(PolygraphyException, match="Pass its name and its folder"):
        assert_matches_golden(MODEL)
    with _updating(monkeypatch, sample=4) as current:
        assert_matches_golden(MODEL, "digits", folder=tmp_path, shapes={"image": (3, 1, 8, 8)})
        assert current.used == {str(tmp_path / "digits.safetensors")}
    golden = golden_in(tmp_path / "digits.safetensors")
    assert golden.sampled == {"logits": 4, "probabilities": 4}
    assert golden.shapes["logits"] == [3, 10]
    assert {"polygraphy", "onnxruntime"} <= golden.versions.keys()
    assert_matches_golden(MODEL, "digits", folder=tmp_path, shapes={"image": (3, 1, 8, 8)})
    [(_, [kept])] = RunResults.load(str(tmp_path / "digits.safetensors"))
    assert kept["logits"].shape == (4,)
    changed = str(DIGITS / "digits_changed.onnx")
    with pytest.raises(OutputsDiffer, match="rms"):
        assert_matches_golden(changed, "digits", folder=tmp_path, shapes={"image": (3, 1, 8, 8)})


class _updating:
    """A session of pytest that makes goldens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sample: int) -> None:
        self._monkeypatch, self._sample = monkeypatch, sample

    def __enter__(self) -> Any:
        import pytest_polygraphy

        class Current:
            updates, sample, budget, report = True, self._sample, 0.0, ""
            used: set[str] = set()
            remarks: list[str] = []

        self._monkeypatch.setattr(pytest_polygraphy, "current", Current)
        return Current

    def __exit__(self, *raised: object) -> None:
        import pytest_polygraphy

        self._monkeypatch.setattr(pytest_polygraphy, "current", None)


def test_a_golden_that_is_too_large_for_a_repository_is_refused(tmp_path: Path) -> None:
    outputs = IterationResult({"y": np.zeros(MOST_BYTES // 4 + 1, np.float32)})
    path = tmp_path / "large.safetensors"
    with pytest.raises(PolygraphyException, match="--polygraphy-golden-sample"):
        save_golden(path, Golden("", ""), "onnxrt", outputs)
    assert not path.exists()


@given(size=st.integers(5, 500), count=st.integers(1, 4))
def test_a_sample_is_of_the_output_and_always_the_same(size: int, count: int) -> None:
    outputs = IterationResult({"y": np.arange(size, dtype=np.float32)})
    golden = Golden("", "", sampled={"y": count})
    kept, again = golden.select_elements(outputs), golden.select_elements(outputs)
    assert kept["y"].tolist() == again["y"].tolist()
    assert len({*kept["y"].tolist()}) == count
    assert kept["y (min, mean, max, rms)"][[0, 2]].tolist() == [0, size - 1]


@pytest.mark.parametrize(
    ("backends", "said"),
    [
        (["onnxrt", "nope"], "Backend 'nope' does not exist. Available: 'onnxrt'"),
        (["onnxrt"], "A comparison requires at least two backends."),
        (["onnxrt --nonsense", "onnx"], "--nonsense"),
    ],
)
def test_a_mistake_is_one_line(backends: list[str], said: str) -> None:
    with pytest.raises(PolygraphyException, match=re.escape(said)) as caught:
        assert_outputs_match(MODEL, backends)
    assert "\n" not in str(caught.value)
    assert caught.value.says_enough  # type: ignore[attr-defined]


def test_inputs_are_recognized_by_names_types_shapes_and_elements() -> None:
    array = np.arange(4, dtype=np.int32)
    feeds = [
        {"x": array},
        {"y": array},
        {"x": array.view(np.float32)},
        {"x": array.reshape(2, 2)},
        {"x": array[::-1]},
        {"x": np.array(["a", "b"], object)},
        {},
    ]
    assert len({hash_of_inputs(feed) for feed in feeds}) == len(feeds)
    assert hash_of_inputs({"a": array, "b": array}) == hash_of_inputs({"b": array, "a": array})
