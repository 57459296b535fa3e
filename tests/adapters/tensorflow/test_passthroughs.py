"""Taking operations out of a graph never changes what is left of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from polygraphy.adapters.tensorflow.graphs import without_passthroughs  # noqa: E402
from tests.support.examples import scaled  # noqa: E402

STEPS = {
    "abs": lambda x, last: tf.raw_ops.Abs(x=x),
    "add": lambda x, last: tf.raw_ops.Add(x=x, y=last),
    "check": lambda x, last: tf.raw_ops.CheckNumerics(tensor=x, message="bad"),
    "identity": lambda x, last: tf.raw_ops.Identity(input=x),
    "stop": lambda x, last: tf.raw_ops.StopGradient(input=x),
}
steps = st.lists(
    st.tuples(
        st.sampled_from(sorted(STEPS)),
        st.integers(0, 20),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def graph_of(drawn: Any) -> tuple[Any, list[str]]:
    """Build a graph of operations that read earlier ones; some wait for an earlier one, and some
    are kept.
    """
    graph = tf.Graph()
    with graph.as_default():
        tensors = [tf.compat.v1.placeholder(tf.float32, [2], name="x")]
        kept = []
        for kind, index, waits, is_kept in drawn:
            source = tensors[index % len(tensors)]
            earlier = [tensors[(index // 2) % len(tensors)].op] if waits else []
            with graph.control_dependencies(earlier):
                made = STEPS[kind](source, tensors[-1])
            tensors.append(made)
            if is_kept:
                kept.append(made.name)
        kept.append(tensors[-1].name)
    return graph, list(dict.fromkeys(kept))


@settings(max_examples=scaled(60), deadline=None)
@given(steps)
def test_what_is_kept_computes_the_same(drawn: Any) -> None:
    graph, kept = graph_of(drawn)
    names = [name.partition(":")[0] for name in kept]
    definition = graph.as_graph_def()
    shorter = without_passthroughs(definition, names)
    assert definition == graph.as_graph_def()
    left = {node.name for node in shorter.node}
    assert set(names) <= left
    for node in shorter.node:
        assert {name.lstrip("^").partition(":")[0] for name in node.input} <= left
    feed = {"x:0": np.array([1.5, -2], np.float32)}
    found = []
    for one in (definition, shorter):
        loaded = tf.Graph()
        with loaded.as_default():
            tf.graph_util.import_graph_def(one, name="")
        with tf.compat.v1.Session(graph=loaded) as session:
            found.append(session.run(kept, feed))
    np.testing.assert_array_equal(*found)
