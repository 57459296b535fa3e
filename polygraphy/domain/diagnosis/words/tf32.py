"""Sentences about products in TF32, and about saved results that were computed in it."""

from __future__ import annotations

from polygraphy.domain.diagnosis.facts import Fact, constant, statement
from polygraphy.domain.tensors.naming import count_text, in_percent

OTHER_SESSION = constant(
    "other_session",
    "Each node reproduces its saved outputs. The saved outputs of the model come from a run of the"
    " unmodified model. The backend computed it differently from the model with marked tensors.",
)


@statement
def results_in_tf32(count: int) -> str:
    """Return the sentence that saved results only differ by the precision of products."""
    tensors = count_text(count, "saved tensor")
    return (
        f"Each node reproduces its saved outputs within TF32 rounding. The results were therefore"
        f" computed in TF32 ({tensors} of convolutions, matrix products or recurrent nodes)."
    )


@statement
def outputs_in_tf32(difference: float, effect: float) -> str:
    """Return the sentence that saved outputs differ by no more than TF32 explains."""
    return (
        "The saved outputs were computed in TF32, which explains the difference of"
        f" {difference:.2g} x RMS. In this model, products in TF32 change outputs by {effect:.2g} x"
        " RMS. To find smaller faults, save all tensors (--onnx-outputs mark all), or results"
        " without TF32 (--providers cuda:use_tf32=0)."
    )


def difference_in_elements(count: int) -> str:
    """Return the clause with the number of elements that differ."""
    return f"a difference in {count_text(count, 'element')}"


def difference_of(largest: float) -> str:
    """Return the clause with the largest difference."""
    return f"a difference of {largest:.2g}"


@statement
def tf32_adds_up(why: Fact, command: str) -> str:
    """Return the sentence that TF32 errors accumulate."""
    how = f" Run it in float32: {command}" if command else ""
    return f"{why}. No single node loses that much: TF32 errors accumulate.{how}"


@statement
def tf32_changes_codes(why: Fact, count: int, share: float) -> str:
    """Return the sentence that TF32 rounds values to the next quantization step."""
    return (
        f"{why}. From equal codes, TF32 changes {count_text(count, 'quantized tensor')} by at"
        f" most one quantization step, in at most {in_percent(share)} of the elements."
    )
