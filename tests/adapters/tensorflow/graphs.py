"""Small graphs of TensorFlow, and files of every format that hold one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polygraphy.adapters.tensorflow.module import tensorflow_module

__all__ = [
    "BIAS",
    "WEIGHT",
    "dense",
    "in_graph",
    "two_layers",
    "write_checkpoint",
    "write_keras",
    "write_saved_model",
    "write_saved_model_v1",
]

Array = npt.NDArray[np.float32]
WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
BIAS = np.array([1, -2, 3], dtype=np.float32)


def dense(x: Array) -> Array:
    """Return what every model here computes of x, float32 [n, 4]: the ReLU of a dense layer."""
    return np.maximum(x @ WEIGHT + BIAS, 0)


def in_graph(build: Callable[[Any, Any], None]) -> Any:
    """Return a graph that a function builds, given `tensorflow` and its version 1."""
    tf = tensorflow_module()
    graph = tf.Graph()
    with graph.as_default():
        build(tf, tf.compat.v1)
    return graph


def _layers(tf: Any, v1: Any, weight: Any, bias: Any) -> Any:
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    product = tf.matmul(x, weight, name="product")
    return tf.nn.relu(tf.add(product, bias, name="sum"), name="y")


def two_layers() -> Any:
    """Return a frozen graph: x, product, sum, y; an unused square of x is not part of y."""

    def build(tf: Any, v1: Any) -> None:
        _layers(tf, v1, tf.constant(WEIGHT, name="weight"), tf.constant(BIAS, name="bias"))

    return in_graph(build)


def write_checkpoint(folder: Path, name: str = "model", *, resources: bool = False) -> None:
    """Write a checkpoint of TensorFlow 1, its variables the old ones or, as today, resources."""

    def build(tf: Any, v1: Any) -> None:
        options = {"use_resource": resources}
        weight = v1.get_variable("weight", initializer=WEIGHT * 0, **options)
        bias = v1.get_variable("bias", initializer=BIAS * 0, **options)
        _layers(tf, v1, weight, bias)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            weight.load(WEIGHT, session)
            bias.load(BIAS, session)
            v1.train.Saver().save(session, str(folder / name))

    in_graph(build)


def write_saved_model(folder: Path) -> None:
    """Write a SavedModel of TensorFlow 2 with two signatures."""
    tf = tensorflow_module()
    module = tf.Module()
    module.weight, module.bias = tf.Variable(WEIGHT), tf.Variable(BIAS)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def infer(x: Any) -> Any:
        product = tf.matmul(x, module.weight)
        return {"y": tf.nn.relu(product + module.bias), "product": product}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="a")])
    def twice(a: Any) -> Any:
        return {"b": a * 2}

    module.infer, module.twice = infer, twice
    tf.saved_model.save(module, str(folder), {"serving_default": infer, "twice": twice})


def write_saved_model_v1(folder: Path) -> None:
    """Write a SavedModel of TensorFlow 1, with old variables."""

    def build(tf: Any, v1: Any) -> None:
        weight = v1.get_variable("weight", initializer=WEIGHT, use_resource=False)
        bias = v1.get_variable("bias", initializer=BIAS, use_resource=False)
        y = _layers(tf, v1, weight, bias)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            x = y.graph.get_tensor_by_name("x:0")
            v1.saved_model.simple_save(session, str(folder), {"picture": x}, {"scores": y})

    in_graph(build)


def write_keras(path: Path) -> None:
    """Write a functional model of Keras with two outputs: `dense` of x, and its sum."""
    keras = tensorflow_module().keras
    x = keras.Input((4,), name="x")
    layer = keras.layers.Dense(3, activation="relu", name="y")
    y = layer(keras.layers.Dropout(0.5, name="dropout")(x))
    total = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="total")(y)
    model = keras.Model(x, [y, total])
    layer.set_weights([WEIGHT, BIAS])
    model.save(path)
