"""What runs are called, so that one knows which is which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.results.results import names_of_runs, without_runner
from polygraphy.domain.tensors.naming import Note

ORT = "onnxrt-runner-N0-11/24/26-13:24:12.250912"
NEXT = "onnxrt-runner-N1-11/24/26-13:24:12.250914"
TRT = "trt-runner-N0-11/24/26-13:24:12"


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([(ORT, ""), (NEXT, ""), (TRT, "")], ["onnxrt", "onnxrt (2)", "trt"]),
        ([(ORT, ""), (ORT, "gold.json")], ["onnxrt", "gold.json"]),
        ([(ORT, "a/gold.json"), (TRT, "a/gold.json")], ["gold.json: onnxrt", "gold.json: trt"]),
        ([(ORT, "a/gold.json"), (ORT, "b/gold.json")], ["a/gold.json", "b/gold.json"]),
        ([(ORT, "g.json"), (NEXT, "g.json")], ["g.json: onnxrt", "g.json: onnxrt (2)"]),
        ([(TRT.replace("trt", "pyt"), "")], ["torch"]),
        ([("mine", ""), (f"{TRT} (b.json)", "")], ["mine", "b.json"]),
    ],
)
def test_runs_are_called_by_kind_or_by_file(runs: list[tuple[str, str]], names: list[str]) -> None:
    assert names_of_runs(runs) == names


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ORT, NEXT, TRT, "mine"]), st.sampled_from(["", "a/g.json", "g.json"])
        ),
        unique=True,
    )
)
def test_no_two_runs_have_one_name(runs: list[tuple[str, str]]) -> None:
    names = names_of_runs(runs)
    assert len(set(names)) == len(runs)
    assert not any("-N" in name for name in names)


def test_a_note_is_about_whom_it_may() -> None:
    assert without_runner(f"{ORT:35} | Input 'x' was cut.") == "Input 'x' was cut."
    assert without_runner("Input 'x' was cut.") == "Input 'x' was cut."
    short = without_runner(Note(f"{TRT} | Long.", brief="Short."))
    assert isinstance(short, Note) and (str(short), short.brief) == ("Long.", "Short.")
