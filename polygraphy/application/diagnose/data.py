"""Data that show what is wrong: of several seeds, and of both signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.domain.data.feed import fit_feed
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.data.synthesis import DEFAULT_SEED, DEFAULT_VAL_RANGE, DataLoader
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.precision import is_float
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.diagnosing import DissectedModel, NarrowModel

_MOST = 4
"""Sets of data that are used of those given."""
_RANGES = ((-1.0, 1.0), (-3.0, 3.0))


def feeds_of(model: DissectedModel | NarrowModel, data_loader: Any) -> list[dict[str, Any]]:
    """Return the data that a model is run on.

    Raises:
        UsageError: there are none.
        InputError: they do not fit the model.
    """
    loaders = _varied(DataLoader() if data_loader is None else data_loader, model.inputs)
    feeds: list[dict[str, Any]] = []
    for loader in loaders:
        describe_model(loader, model.inputs, model.facts)
        for feed in loader:
            fitted, _ = fit_feed(feed, model.inputs)
            feeds.append(dict(fitted))
            if len(feeds) == _MOST:
                break
    if not feeds:
        raise UsageError("There are no input data: the data loader is empty.")
    return feeds


def in_type(value: Any, asked: MetadataTuple | None) -> Any:
    """Return an array of floating-point numbers in the type of them that an input asks for."""
    dtype = None if asked is None else asked.dtype
    if dtype is None or not dtype.is_floating or not is_float(value):
        return value
    return value.astype(dtype.numpy(), copy=False)


def data_options(
    model: DissectedModel, data_loader: Any, number: int, feed: Mapping[str, Any]
) -> list[str]:
    """Return the options of a command line that makes the same data as those of a number that
    `feeds_of` returned; none where they come from elsewhere.
    """
    paths = getattr(data_loader, "paths", None)
    if paths:
        return ["--load-inputs", *map(str, paths)]
    if data_loader is not None and not isinstance(data_loader, DataLoader):
        return []
    loaders = _varied(DataLoader() if data_loader is None else data_loader, model.inputs)
    loader = loaders[number] if len(loaders) > 1 else loaders[0]
    words = []
    if loader.seed != DEFAULT_SEED:
        words += ["--seed", str(loader.seed)]
    if loader.iterations > 1:
        words += ["--iterations", str(loader.iterations)]
    if loader.val_range != DEFAULT_VAL_RANGE:
        ranges = loader.val_range
        named = ranges.items() if isinstance(ranges, Mapping) else [("", ranges)]
        words += ["--val-range", *(_bounded(name, bounds) for name, bounds in named)]
    open_shapes = [
        name
        for name, meta in model.inputs.items()
        if name in feed and (meta.shape is None or is_shape_dynamic(meta.shape))
    ]
    if open_shapes:
        shapes = [f"{name}:[{','.join(map(str, feed[name].shape))}]" for name in open_shapes]
        words += ["--input-shapes", *shapes]
    return words


def _bounded(name: str, bounds: tuple[Any, Any]) -> str:
    low, high = bounds
    return f"{name}:[{low:g},{high:g}]" if name else f"[{low:g},{high:g}]"


def _varied(loader: Any, inputs: TensorMetadata) -> list[Any]:
    """Return loaders of positive data, as they are by default, and of data of both signs; one whose
    data are chosen is the only one.
    """
    is_chosen = (
        not isinstance(loader, DataLoader)
        or loader.iterations > 1
        or loader.val_range != DEFAULT_VAL_RANGE
    )
    if is_chosen:
        return [loader]
    floats = [name for name, meta in inputs.items() if meta.dtype is None or meta.dtype.is_floating]
    return [
        loader,
        *(
            loader.drawing_from(loader.seed + more, dict.fromkeys(floats, held) if floats else None)
            for more, held in enumerate(_RANGES, 1)
        ),
    ]
