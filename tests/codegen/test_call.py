"""Calls in programs, and the options that feed them."""

from __future__ import annotations

from typing import Any

import pytest

from polygraphy.cli.backends.onnxrt import OnnxrtOptions
from polygraphy.cli.commands.inspect.data import DetailOptions
from polygraphy.cli.commands.inspect.model_options import ExternalDataOptions
from polygraphy.cli.declare.option import Values, call_of
from polygraphy.codegen.source import Call, Expression, Metadata, Name, Source


def written(expression: Expression) -> tuple[str, list[str]]:
    """Return the source of an expression, and the modules that it imports from."""
    modules: list[str] = []

    def use(module: str, name: str) -> Source:
        modules.append(module)
        return Source(name)

    return str(expression.to_source(use)), modules


def test_metadata_name_shapes_and_data_types_or_leave_them_open() -> None:
    tensors = [("x", (1, "N", None), "FLOAT32"), ('a")', None, None)]
    assert written(Metadata(tensors)) == (
        "TensorMetadata().add('x', dtype=DataType['FLOAT32'], shape=[1, 'N', None])"
        ".add('a\")', dtype=None, shape=None)",
        ["polygraphy.common", "polygraphy.datatype"],
    )


def test_calls_hold_names_and_calls_and_lists_of_them() -> None:
    loader = Call("DataLoader", kwargs={"seed": 2, "iterations": None})
    check = Call("check_lint", kwargs={"data_loader": [loader, Name("a.b", "C")]}).of("m.onnx")
    assert written(check) == (
        "check_lint('m.onnx', data_loader=[DataLoader(seed=2), C])",
        ["polygraphy.check", "polygraphy.comparator", "a.b"],
    )


def test_further_arguments_come_first_and_take_the_place_of_those_that_a_call_has() -> None:
    marked = Call("ModifyNetworkOutputs", kwargs={"outputs": ["a"], "exclude_outputs": ["b"]})
    source = Source("load_network")
    assert written(marked.of(source, outputs=None))[0] == (
        "ModifyNetworkOutputs(load_network, exclude_outputs=['b'])"
    )
    assert written(marked.of(exclude_outputs=["c"]))[0] == (
        "ModifyNetworkOutputs(outputs=['a'], exclude_outputs=['c'])"
    )


def test_methods_are_called_on_what_another_call_returns() -> None:
    made = Call("Profile")
    for name in ("x", "y"):
        made = Call("Profile.add", (name,), {"min": [1]}, on=made)
    assert written(made) == (
        "Profile().add('x', min=[1]).add('y', min=[1])",
        ["polygraphy.backend.trt"],
    )


def test_a_call_with_an_argument_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="check_lint takes no speed"):
        Call("check_lint", kwargs={"speed": 1})


def call(name: str, *groups: Any, **decided: Any) -> str:
    return written(call_of(name, Values({type(group): group for group in groups}), **decided))[0]


def test_rows_feed_a_call_in_the_order_of_its_signature() -> None:
    sessions = OnnxrtOptions(providers=("cpu", ("cuda", {"device_id": "1"})))
    files = ExternalDataOptions(external_data_dir="w", ignore_external_data=True)
    assert call("check_lint", sessions, files, output="o.json") == (
        "check_lint(output='o.json', external_data_dir='w', ignore_external_data=True,"
        " providers=['cpu', ('cuda', {'device_id': '1'})])"
    )
    assert call("inspect_sparsity", sessions, files, external_data_dir=None) == (
        "inspect_sparsity(ignore_external_data=True)"
    )


@pytest.mark.parametrize(("items", "expected"), [(None, ""), (3, ""), (4, "num_items=4")])
def test_what_leaves_an_argument_at_its_default_is_not_written(
    items: int | None, expected: str
) -> None:
    assert call("inspect_data", DetailOptions(num_items=items)) == f"inspect_data({expected})"
