"""What every runner promises, asked of each."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.application.run.feeding import promises
from polygraphy.domain.errors import InputError, PolygraphyException, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import Runner
from tests.contract.runners import (
    BROKEN,
    CASES,
    INPUT_TYPES,
    MACHINES,
    RUNNERS,
    MakeRunner,
    as_described,
)

pytestmark = pytest.mark.extra

X = np.array([[1.5, -2], [3, np.inf]], dtype=np.float32)


@pytest.fixture(params=RUNNERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str) -> Iterator[MakeRunner]:
    with MACHINES.get(kind, contextlib.nullcontext)():
        yield RUNNERS[kind]


@pytest.fixture
def identity(make: MakeRunner) -> Iterator[BaseRunner]:
    """Give an active runner of Y = X; X is float32 ['n', 2]."""
    with make("identity") as runner:
        yield runner


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reported: list[str] = []
    monkeypatch.setattr(G_LOGGER, "warning", reported.append)
    return reported


# Names and life cycle.


def test_takes_the_arguments_of_the_port(make: MakeRunner) -> None:
    runner = make("identity")
    for name, wanted in inspect.getmembers(Runner, inspect.isfunction):
        if name.startswith("_") and name not in ("__enter__", "__exit__"):
            continue
        parameters = inspect.signature(getattr(runner, name)).parameters
        for parameter in list(inspect.signature(wanted).parameters.values())[1:]:
            assert parameter.name in parameters, name
            assert parameters[parameter.name].default == parameter.default, name


def test_a_given_name_is_kept(make: MakeRunner) -> None:
    assert make("identity", name="mine").name == "mine"
    assert make("identity", name="").name == ""


def test_names_are_unique_unless_given(make: MakeRunner) -> None:
    names = [make("identity").name for _ in range(3)]
    assert len(set(names)) == 3
    assert len({name.partition("-N")[0] for name in names}) == 1


def test_is_active_inside_the_block_only(make: MakeRunner) -> None:
    runner = make("identity")
    assert not runner.is_active
    with runner as entered:
        assert entered is runner
        assert runner.is_active
    assert not runner.is_active


def test_an_exception_deactivates(make: MakeRunner) -> None:
    runner = make("identity")
    with pytest.raises(KeyError), runner:
        raise KeyError
    assert not runner.is_active


def test_use_before_activation_says_what_to_do(make: MakeRunner) -> None:
    runner = make("identity", name="sleeper")
    for use in (runner.get_input_metadata, lambda: runner.infer({"X": X})):
        with pytest.raises(UsageError, match=r"sleeper must be active.*activate\(\)"):
            use()
    assert runner.last_inference_time() is None


def test_use_after_deactivation_is_refused_too(make: MakeRunner) -> None:
    runner = make("identity")
    with runner:
        runner.get_input_metadata()
        runner.infer({"X": X})
    for use in (runner.get_input_metadata, lambda: runner.infer({"X": X})):
        with pytest.raises(UsageError, match="must be active"):
            use()


def test_activating_twice_only_warns(make: MakeRunner, warnings: list[str]) -> None:
    runner = make("identity", name="eager")
    runner.activate()
    assert not warnings
    runner.activate()
    assert len(warnings) == 1
    assert "eager" in warnings[0]
    assert "lready active" in warnings[0]
    np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
    runner.deactivate()
    assert not runner.is_active


def test_deactivating_twice_only_warns(make: MakeRunner, warnings: list[str]) -> None:
    runner = make("identity", name="tired")
    runner.activate()
    runner.deactivate()
    assert not warnings
    runner.deactivate()
    assert len(warnings) == 1
    assert "tired" in warnings[0]


def test_can_be_activated_again(make: MakeRunner) -> None:
    runner = make("identity")
    for factor in (1, 2):
        with runner:
            assert runner.last_inference_time() is None
            assert list(runner.get_input_metadata()) == ["X"]
            np.testing.assert_array_equal(runner.infer({"X": X * factor})["Y"], X * factor)


def test_what_cannot_be_loaded_leaves_the_runner_inactive(kind: str, make: MakeRunner) -> None:
    runner = BROKEN[kind]()
    with pytest.raises(PolygraphyException):
        runner.activate()
    assert not runner.is_active
    with pytest.raises(UsageError):
        runner.infer({})


# What is asked for.


def test_inputs_are_described_in_the_order_of_the_model(kind: str, make: MakeRunner) -> None:
    with make("two_inputs") as runner:
        metadata = runner.get_input_metadata(use_numpy_dtypes=False)
    assert isinstance(metadata, TensorMetadata)
    assert list(metadata) == ["b", "a"]
    assert [list(shape) for _, shape in metadata.values()] == [[2], as_described(kind, ["n", 3])]
    assert [dtype for dtype, _ in metadata.values()] == [DataType.INT64, DataType.FLOAT32]


@pytest.mark.parametrize("how", [{}, {"use_numpy_dtypes": None}, {"use_numpy_dtypes": True}])
def test_numpy_dtypes_are_the_default(make: MakeRunner, how: dict[str, Any]) -> None:
    with make("identities") as runner:
        dtypes = {name: dtype for name, (dtype, _) in runner.get_input_metadata(**how).items()}
    assert dtypes == {name: np.dtype(name) for name in INPUT_TYPES}
    assert all(isinstance(dtype, np.dtype) for dtype in dtypes.values())


def test_own_dtypes_when_asked_for(make: MakeRunner) -> None:
    with make("identities") as runner:
        metadata = runner.get_input_metadata(use_numpy_dtypes=False)
    assert {name: dtype for name, (dtype, _) in metadata.items()} == {
        name: DataType[name] for name in INPUT_TYPES
    }


def test_a_scalar_has_no_dimension(make: MakeRunner) -> None:
    with make("scalar") as runner:
        _, shape = runner.get_input_metadata()["x"]
    assert list(shape) == []


# What comes out.


def test_outputs_come_as_arrays_in_the_order_of_the_model(make: MakeRunner) -> None:
    feed = {"a": np.ones((4, 3), dtype=np.float32), "b": np.array([7, 8])}
    with make("two_inputs") as runner:
        outputs = runner.infer(feed)
    assert type(outputs) is dict
    assert list(outputs) == ["z", "a_out"]
    assert all(type(array) is np.ndarray for array in outputs.values())
    np.testing.assert_array_equal(outputs["z"], [8, 9])


def test_data_and_outputs_are_not_shared(make: MakeRunner) -> None:
    """So callers that run several runners need not copy."""
    runner = make("identity")
    assert promises(runner, "leaves_inputs_alone")
    assert promises(runner, "outputs_are_fresh")


def test_the_feed_is_left_alone(make: MakeRunner) -> None:
    feed = {"a": np.ones((1, 3), dtype=np.float32), "b": np.array([7, 8])}
    before = {name: array.copy() for name, array in feed.items()}
    with make("two_inputs") as runner:
        runner.infer(feed)
    assert list(feed) == list(before)
    for name, array in feed.items():
        np.testing.assert_array_equal(array, before[name], strict=True)


def test_the_time_of_an_inference_is_positive(identity: BaseRunner) -> None:
    assert identity.last_inference_time() is None
    identity.infer({"X": X})
    seconds = identity.last_inference_time()
    assert isinstance(seconds, float)
    assert 0 < seconds < 60


def test_results_are_independent(identity: BaseRunner) -> None:
    first = identity.infer({"X": X})
    second = identity.infer({"X": X + 1})
    np.testing.assert_array_equal(first["Y"], X)
    np.testing.assert_array_equal(second["Y"], X + 1)


def test_outputs_belong_to_the_caller(make: MakeRunner) -> None:
    feed = {"x": X.copy()}
    with make("views") as runner:
        outputs = runner.infer(feed)
        assert not np.shares_memory(outputs["t"], feed["x"])
        outputs["w"][:] = 7
        np.testing.assert_array_equal(runner.infer(feed)["w"], [1, 1])


# What goes in.


def _read_only(array: Any) -> Any:
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen


@pytest.mark.parametrize(
    "arrange",
    [
        pytest.param(np.asfortranarray, id="fortran"),
        pytest.param(lambda a: np.repeat(a, 2, axis=0)[::2], id="every second row"),
        pytest.param(lambda a: a[::-1].copy()[::-1], id="negative stride"),
        pytest.param(lambda a: np.broadcast_to(a[:1], a.shape), id="stride zero"),
        pytest.param(_read_only, id="read-only"),
        pytest.param(lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype)
                     .reshape(a.shape), id="unaligned"),
    ],
)  # fmt: skip
def test_any_layout_of_an_array_will_do(identity: BaseRunner, arrange: Any) -> None:
    arranged = arrange(X)
    expected = np.ascontiguousarray(arranged).copy()
    np.testing.assert_array_equal(identity.infer({"X": arranged})["Y"], expected, strict=True)


def test_another_byte_order_is_refused_or_understood(identity: BaseRunner) -> None:
    try:
        outputs = identity.infer({"X": X.astype(">f4")})
    except InputError:
        return
    np.testing.assert_array_equal(outputs["Y"], X)


def test_an_empty_batch(identity: BaseRunner) -> None:
    empty = np.zeros((0, 2), dtype=np.float32)
    np.testing.assert_array_equal(identity.infer({"X": empty})["Y"], empty, strict=True)


def test_a_scalar(make: MakeRunner) -> None:
    with make("scalar") as runner:
        outputs = runner.infer({"x": np.array(2.5, dtype=np.float32)})
    assert type(outputs["y"]) is np.ndarray
    np.testing.assert_array_equal(outputs["y"], np.array(-2.5, dtype=np.float32), strict=True)


def test_every_data_type_goes_through(make: MakeRunner) -> None:
    feed = {name: np.array([0, 1, 100]).astype(name) for name in INPUT_TYPES}
    with make("identities") as runner:
        outputs = runner.infer(feed)
    for name in INPUT_TYPES:
        np.testing.assert_array_equal(outputs[f"out_{name}"], feed[name], strict=True)


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_strings_go_through(make: MakeRunner, dtype: Any) -> None:
    with make("strings") as runner:
        outputs = runner.infer({"x": np.array(["one", "", "drei\u00df"], dtype=dtype)})
    assert outputs["y"].tolist() == ["one", "", "drei\u00df"]


@pytest.mark.parametrize("values", [[3, -1, 0], []])
def test_every_data_type_comes_out(kind: str, make: MakeRunner, values: list[int]) -> None:
    feed = {"x": np.array(values, dtype=np.int32)}
    with make("every_dtype") as runner:
        outputs = runner.infer(feed)
    expected = CASES["every_dtype"].function(feed)
    if kind == "pyt":  # PyTorch has no tensors of texts.
        del expected["string"]
    assert list(outputs) == list(expected)
    for name, array in expected.items():
        assert outputs[name].shape == array.shape, name
        if name == "string":
            assert outputs[name].tolist() == array.tolist()
        else:
            np.testing.assert_array_equal(outputs[name], array, strict=True)


# What does not fit.

F32 = np.float32
WRONG: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "wrong name": ({"Z": X}, ["'X'", "'Z'"]),
    "misspelt name": ({"x": X}, ["'X'", "'x'", "Did you mean"]),
    "no data": ({}, ["'X'"]),
    "too many": ({"X": X, "extra": X}, ["'X'", "'extra'"]),
    "wrong type": ({"X": X.astype(np.float64)}, ["'X'", "float32", "float64"]),
    "integers": ({"X": np.ones((1, 2), dtype=np.int64)}, ["'X'", "float32", "int64"]),
    "wrong size": ({"X": np.zeros((1, 3), F32)}, ["'X'", ["n", 2], "(1, 3)"]),
    "wrong rank": ({"X": np.zeros(2, F32)}, ["'X'", ["n", 2], "(2,)"]),
    "scalar": ({"X": np.zeros((), F32)}, ["'X'", ["n", 2], "()"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_do_not_fit_are_explained(kind: str, identity: BaseRunner, case: str) -> None:
    feed, facts = WRONG[case]
    with pytest.raises(InputError) as caught:
        identity.infer(feed)
    for fact in facts:
        reported = fact if isinstance(fact, str) else str(tuple(as_described(kind, fact)))
        assert reported in str(caught.value)


@pytest.mark.parametrize("case", WRONG)
def test_data_that_fit_once_do_not_excuse_what_follows(identity: BaseRunner, case: str) -> None:
    for _ in range(2):
        identity.infer({"X": X})
        with pytest.raises(InputError):
            identity.infer(WRONG[case][0])
    np.testing.assert_array_equal(identity.infer({"X": X})["Y"], X)


@pytest.mark.parametrize("data", [[[1.0, 2.0]], None, "text"], ids=["list", "None", "text"])
def test_what_is_no_array_is_explained(identity: BaseRunner, data: Any) -> None:
    with pytest.raises(InputError, match="'X'"):
        identity.infer({"X": data})


@pytest.mark.parametrize("kind", [kind for kind in RUNNERS if kind != "fake"])
@pytest.mark.parametrize(
    "feed",
    [{}, {"Z": X}, {"X": X.astype(np.complex64)}, {"X": "text"}, {"X": object()}],
    ids=["nothing", "name", "type", "text", "object"],
)
def test_unchecked_data_never_raise_a_foreign_error(
    kind: str, identity: BaseRunner, feed: Any
) -> None:
    with contextlib.suppress(PolygraphyException):
        identity.infer(feed, check_inputs=False)
    assert identity.is_active
    np.testing.assert_array_equal(identity.infer({"X": X})["Y"], X)


@pytest.mark.parametrize("data", [None, [X], X, "X", 7], ids=repr)
def test_data_that_are_no_dictionary_are_refused(identity: BaseRunner, data: Any) -> None:
    with pytest.raises(
        InputError, match="a dictionary from input names to arrays, not a"
    ) as refused:
        identity.infer(data)
    assert "{'X': ...}" in refused.value.hint
