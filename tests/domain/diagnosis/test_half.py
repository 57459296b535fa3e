"""What nodes lose in half precision, and which of them are to blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from polygraphy.domain.diagnosis.headroom import (
    NodeLoss,
    Range,
    TensorLoss,
    culprits_among,
    first_invalid,
    node_loss,
    order_nodes,
    worst_of,
)
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.precision import narrow_array

HALF = Range.of(DataType.FLOAT16)


def pair(values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers, and what rounding makes of them."""
    exact = np.asarray(values, np.float32)
    with np.errstate(over="ignore"):
        return exact, exact.astype(np.float16)


def loss(
    name: str,
    op: str,
    reads: Mapping[str, Sequence[float]],
    makes: Sequence[float],
    weights: Mapping[str, Sequence[float]] | None = None,
    made: Sequence[float] | None = None,
) -> NodeLoss:
    """Return what a node loses that makes the tensor of its name."""
    exact, rounded = pair(makes)
    return node_loss(
        name,
        op,
        {each: pair(values) for each, values in reads.items()},
        {name: (exact, rounded if made is None else np.asarray(made, np.float16))},
        {
            each: narrow_array(np.asarray(values, np.float32), DataType.FLOAT16)[1]
            for each, values in (weights or {}).items()
        },
        HALF,
    )


def test_ranges_are_those_of_the_types() -> None:
    assert (HALF.largest, HALF.spacing) == (65504, 2**-10)
    assert HALF.normal == 2**-14
    assert HALF.smallest == 2**-24
    assert Range.of(DataType.BFLOAT16).spacing == 2**-7


@pytest.mark.parametrize(
    ("node", "cause", "tensor", "said"),
    [
        (loss("n", "Mul", {"x": [1, 2]}, [1, 7e4]), "overflow", "n", "1 of 2 elements of 'n'"),
        (
            loss("n", "ReduceMean", {"x": [5, 5]}, [5], made=[np.inf]),
            "overflow",
            "n",
            "for 'n' are too large",
        ),
        (
            loss("n", "BatchNormalization", {"x": [1]}, [1], {"var": [1, 9.8e7]}),
            "overflow",
            "var",
            "1 of 2 elements of the weight 'var' are too large, up to 9.8e+07",
        ),
        (
            loss("n", "Add", {"x": [0, 1]}, [1e-12, 1], {"eps": [1e-12]}),
            "epsilon",
            "eps",
            "'eps' = 1e-12 becomes 0",
        ),
        (
            loss("n", "Mul", {"x": [1, 1]}, [1e-9, 1e-9], {"scale": [1e-9, 1e-9]}),
            "underflow",
            "scale",
            "becomes 0",
        ),
        (loss("n", "Mul", {"x": [1]}, [1e-9]), "underflow", "n", "1 of 1 elements of 'n' become 0"),
        (
            loss("n", "Sub", {"x": [30000.4], "y": [30000]}, [0.4], made=[0]),
            "rounding",
            "n",
            "relative error of 1 in 'n'",
        ),
    ],
)
def test_a_fault_says_what_the_type_does(
    node: NodeLoss, cause: str, tensor: str, said: str
) -> None:
    fault = node.fault(HALF)
    assert fault is not None
    assert (fault.cause, fault.tensor) == (cause, tensor)
    assert said in fault.evidence


def test_rounding_alone_is_no_fault() -> None:
    assert loss("n", "Mul", {"x": [1.1, 2.3]}, [0.1, 65504]).fault(HALF) is None
    assert loss("n", "Add", {"x": [0.5]}, [1e-9, 1.0]).fault(HALF) is None


def chain() -> tuple[list[NodeLoss], dict[str, list[str]]]:
    """Return nodes of which `big` overflows, `back` reads that, and `other` has a lost epsilon."""
    losses = [
        loss("first", "Relu", {"x": [1]}, [1]),
        loss("big", "Mul", {"first": [1]}, [1e6]),
        loss("back", "Mul", {"big": [1e6]}, [1], made=[np.inf]),
        loss("last", "Relu", {"back": [1]}, [1]),
        loss("other", "Add", {"last": [0]}, [1e-12], {"eps": [1e-12]}),
    ]
    return losses, {"first": ["big"], "big": ["back"], "back": ["last"], "last": ["other"]}


def test_who_reads_what_another_loses_is_not_blamed() -> None:
    losses, users = chain()
    found = culprits_among(["other", "back", "big"], losses, users, HALF)
    assert [(each.nodes, each.fault.cause, each.beside) for each in found] == [
        (["big"], "overflow", ["back"]),
        (["other"], "epsilon", []),
    ]
    [alone] = culprits_among(["back"], losses, users, HALF)
    assert (alone.nodes, alone.fault.tensor) == (["back"], "big")


def test_nodes_that_lose_digits_together_are_named_together() -> None:
    losses = [
        loss("far", "Add", {"x": [0.4]}, [30000.4]),
        loss("near", "Sub", {"far": [30000.4]}, [0.4], made=[0]),
    ]
    [found] = culprits_among(["far", "near"], losses, {"far": ["near"]}, HALF)
    assert (found.nodes, found.op, found.fault.cause) == (["far", "near"], "Sub", "rounding")


def test_a_quantized_step_is_rounding_and_another_number_is_not() -> None:
    steps = np.array([100, 120, 90], np.uint8), np.array([101, 120, 89], np.uint8)
    ids = np.array([100, 120, 90]), np.array([101, 120, 89])
    for pair_of, is_rounding in ((steps, True), (ids, False)):
        made = node_loss("q", "QuantizeLinear", {"x": pair([1])}, {"q": pair_of}, {}, HALF)
        assert made.results[0].error > 0
        assert made.rounds(HALF) is not is_rounding


def test_nodes_that_only_round_are_not_named_beside_others() -> None:
    losses, users = chain()
    first = culprits_among(["first", "big"], losses, {}, HALF)
    assert [each.nodes for each in first] == [["big"]]
    [alone] = culprits_among(["first"], losses, users, HALF)
    assert (alone.nodes, alone.fault.cause) == (["first"], "rounding")
    assert "which later nodes amplify" in alone.fault.evidence


def test_nodes_that_lose_most_come_first_with_those_that_they_lose_it_on() -> None:
    losses, users = chain()
    order = order_nodes(losses, [each.name for each in losses], users, HALF)
    assert set(order[:2]) == {"big", "back"}
    assert order[-1] in ("first", "last")
    rounding = [
        loss("a", "Relu", {"x": [1]}, [1]),
        loss("far", "Add", {"a": [0.4]}, [30000.4]),
        loss("near", "Sub", {"far": [30000.4]}, [0.4], made=[0]),
    ]
    assert order_nodes(rounding, ["a", "far", "near"], {"far": ["near"]}, HALF)[-1] == "a"


def test_data_that_do_harm_count() -> None:
    harmless, harmful = (loss("n", "Mul", {"x": [1]}, [value]) for value in (1, 1e6))
    [worst] = worst_of([[harmless], [harmful], [harmless]])
    assert worst.results[0].above == 1
    assert worst.results[0].peak == 1e6


def test_the_first_node_with_infinities_of_its_own_is_found() -> None:
    losses = [
        loss("fine", "Relu", {"x": [1]}, [1]),
        loss("log", "Log", {"fine": [-1]}, [np.nan]),
        loss("after", "Relu", {"log": [np.nan]}, [np.nan]),
    ]
    found = first_invalid(losses)
    assert found is not None
    assert (found.nodes, found.fault.cause) == (["log"], "nan")
    assert first_invalid(losses[:1]) is None


def test_a_range_that_is_left_is_no_rounding() -> None:
    limits = Range.of(DataType.FLOAT16)
    lost = TensorLoss("y", elements=4, peak=1e-9, zeroed=4, error=1.0)
    rough = TensorLoss("y", elements=4, peak=1.0, error=0.5)
    assert NodeLoss("a", "Mul", results=[lost]).amplifies(limits)
    assert not NodeLoss("a", "Mul", results=[lost]).rounds(limits)
    assert NodeLoss("a", "Sub", results=[rough]).rounds(limits)
