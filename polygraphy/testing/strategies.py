"""Strategies of hypothesis: tensors and what describes them, for tests of adapters.

Needs hypothesis, which this package does not install.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.metadata import TensorMetadata

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool")
"""Data types that every backend of ONNX models has."""


def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    """Return a strategy for data types of NumPy: those of `DTYPES`."""
    return st.sampled_from(DTYPES).map(np.dtype)


def shapes(*, max_rank: int = 4, max_dim: int = 5) -> st.SearchStrategy[tuple[int, ...]]:
    """Return a strategy for shapes, including those of scalars and empty tensors.

    Args:
        max_rank: the largest number of dimensions.
        max_dim: the largest dimension.
    """
    return st.lists(st.integers(0, max_dim), max_size=max_rank).map(tuple)


def arrays(dtype: Any = None, shape: Sequence[int] | None = None) -> st.SearchStrategy[Array]:
    """Return a strategy for arrays of any bits, including NaN, infinities and denormals.

    Args:
        dtype: one that `numpy.dtype` takes (default: any of `DTYPES`).
        shape: the shape (default: any of `shapes`).
    """

    @st.composite
    def draw_array(draw: st.DrawFn) -> Array:
        """Return a random array of the data type and shape."""
        kind = draw(dtypes()) if dtype is None else np.dtype(dtype)
        size = draw(shapes()) if shape is None else tuple(shape)
        count = int(np.prod(size, dtype=np.int64))
        if kind.kind == "b":
            values = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
            return values.reshape(size)
        nbytes = count * kind.itemsize
        bits = draw(st.binary(min_size=nbytes, max_size=nbytes))
        array: Array = np.frombuffer(bits, kind).reshape(size).copy()
        return array

    return draw_array()


def input_metadata(
    *, min_size: int = 1, max_size: int = 4, is_dynamic: bool = True
) -> st.SearchStrategy[TensorMetadata]:
    """Return a strategy for the metadata of inputs.

    Args:
        min_size: the smallest number of inputs.
        max_size: the largest number of inputs.
        is_dynamic: whether a dimension may be unknown: None, or a name.
    """
    unknown = st.sampled_from([None, "batch", "length"])

    @st.composite
    def draw_metadata(draw: st.DrawFn) -> TensorMetadata:
        """Return the metadata of random inputs."""
        metadata = TensorMetadata()
        for index in range(draw(st.integers(min_size, max_size))):
            dims: list[Any] = list(draw(shapes(max_rank=3)))
            if is_dynamic:
                dims = [draw(unknown) if draw(st.booleans()) else dim for dim in dims]
            metadata.add(f"input_{index}", draw(dtypes()), dims)
        return metadata

    return draw_metadata()


def feed_dicts(
    metadata: TensorMetadata, *, max_dim: int = 5
) -> st.SearchStrategy[dict[str, Array]]:
    """Return a strategy for valid feed dictionaries: one array per input.
    Dimensions with equal names are equal.

    Args:
        metadata: of the inputs, with data types and shapes.
        max_dim: the largest value of an unknown dimension.
    """

    @st.composite
    def draw_feed(draw: st.DrawFn) -> dict[str, Array]:
        """Return random arrays for the metadata."""
        sizes: dict[str, int] = {}
        feed = {}
        for name, entry in metadata.items():
            shape = []
            for dim in entry.shape or ():
                if isinstance(dim, int) and dim >= 0:
                    shape.append(dim)
                    continue
                size = draw(st.integers(1, max_dim))
                shape.append(sizes.setdefault(dim, size) if isinstance(dim, str) else size)
            feed[name] = draw(arrays(entry.dtype.numpy(), shape))
        return feed

    return draw_feed()


def run_results(
    runners: Sequence[str] = ("first", "second"), *, max_iterations: int = 3
) -> st.SearchStrategy[RunResults]:
    """Return a strategy for results of runs: the runners have the same outputs, data types, shapes
    and numbers of iterations.

    Args:
        runners: their names.
        max_iterations: the largest number of iterations of each.
    """

    @st.composite
    def draw_results(draw: st.DrawFn) -> RunResults:
        """Return random results for the runners."""
        outputs = draw(input_metadata(is_dynamic=False, max_size=2))
        count = draw(st.integers(0, max_iterations))
        feeds = feed_dicts(outputs)
        return RunResults(
            (name, [IterationResult(draw(feeds), 0.0, name) for _ in range(count)])
            for name in runners
        )

    return draw_results()
