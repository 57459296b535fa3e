"""Models that are damaged, bytes or graph: a report or a clear error, and never anything else."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.check import check_lint
from polygraphy.domain.errors import PolygraphyException
from polygraphy.inspect import compare_models, inspect_model, inspect_outputs, inspect_sparsity
from polygraphy.logger import G_LOGGER
from tests.support import models
from tests.support.examples import scaled

BASES: list[Callable[[], onnx.ModelProto]] = [
    models.mlp,
    models.conv_net,
    models.identity_fp16,
    models.custom_op,
    models.every_dtype,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


def everything(path: Path) -> None:
    """Look at a model in every way; errors of ours are fine, others are not."""
    show = ["layers", "attrs", "weights"]
    looks: list[Callable[[], object]] = [
        lambda: inspect_model(str(path), show=show, stats=True, list_unbounded_dds=True),
        lambda: inspect_model(str(path), show=show),
        lambda: inspect_outputs(str(path)),
        lambda: inspect_sparsity(str(path)),
        lambda: compare_models(str(path), str(path)),
        lambda: check_lint(str(path)),
    ]
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL), redirect_stdout(io.StringIO()):
        for look in looks:
            with suppress(PolygraphyException):
                look()


def damage(model: onnx.ModelProto, chosen: random.Random) -> None:
    """Change one thing in a graph so that it is likely not to be right any more."""
    graph = model.graph
    node = chosen.choice(graph.node)
    names = [name for one in graph.node for name in (*one.input, *one.output)] + ["nowhere", ""]
    kind = chosen.randrange(12)
    if kind == 0 and node.input:
        node.input[chosen.randrange(len(node.input))] = chosen.choice(names)
    elif kind == 1 and node.output:
        node.output[chosen.randrange(len(node.output))] = chosen.choice(names)
    elif kind == 2:
        node.op_type = chosen.choice(["Conv", "MatMul", "If", "Loop", "Unheard", "", "Reshape"])
    elif kind == 3:
        node.name = chosen.choice(graph.node).name
    elif kind == 4 and graph.initializer:
        tensor = chosen.choice(graph.initializer)
        tensor.dims.append(chosen.choice([0, 1, -1, 2**40]))
    elif kind == 5 and graph.initializer:
        tensor = chosen.choice(graph.initializer)
        tensor.data_type = chosen.randrange(0, 30)
    elif kind == 6:
        node.domain = chosen.choice(["", "their.own", "ai.onnx.ml", "\x00"])
    elif kind == 7:
        del model.opset_import[:]
    elif kind == 8:
        copied = graph.node.add()
        copied.CopyFrom(node)
    elif kind == 9:
        made = node.attribute.add(name=chosen.choice(["axis", "perm", "to", "body"]))
        made.type = chosen.randrange(0, 15)
        made.i = chosen.choice([-1, 0, 99, 2**62])
    elif kind == 10 and graph.input:
        graph.input[0].type.Clear()
    elif graph.initializer:
        tensor = chosen.choice(graph.initializer)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=chosen.choice(["gone", "../x", "", "/"]))


@settings(
    max_examples=scaled(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32), count=st.integers(1, 4))
def test_damaged_graphs(
    folder: Path, base: Callable[[], onnx.ModelProto], seed: int, count: int
) -> None:
    model, chosen = base(), random.Random(seed)
    for _ in range(count):
        damage(model, chosen)
    path = folder / "graph.onnx"
    path.write_bytes(model.SerializeToString())
    everything(path)


@settings(
    max_examples=scaled(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(base=st.sampled_from(BASES), data=st.data())
def test_damaged_bytes(
    folder: Path, base: Callable[[], onnx.ModelProto], data: st.DataObject
) -> None:
    content = bytearray(base().SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(1, len(content) - 1)) :]
    path = folder / "bytes.onnx"
    path.write_bytes(content)
    everything(path)
