"""Data that show what is wrong: of several seeds, and of both signs."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.data.describing import describe_model
from polygraphy.domain.data.feed import fit_feed
from polygraphy.domain.data.synthesis import DEFAULT_VAL_RANGE, DataLoader
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.metadata import TensorMetadata
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
