"""The elements of weights as arrays: mapped from a file where they are in one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.onnx.storage.elements import elements, from_stored, plain_dtype
from polygraphy.adapters.onnx.storage.external import located_weight, location_of
from polygraphy.adapters.onnx.storage.weights import is_external

if TYPE_CHECKING:
    from onnx import TensorProto


class WeightArrays:
    """Gives the elements of a model's weights."""

    def __init__(self, path: str | Path, external_data_dir: str | None = None) -> None:
        """Name the model, and the folder of the files with its weights, if not its own."""
        self._path = Path(path)
        self._folder = Path(external_data_dir or self._path.parent)
        # A model in a cache may be a link, as its weights are, to where both really lie.
        self._trusted = () if external_data_dir else (self._path.resolve().parent,)

    def array(self, tensor: TensorProto) -> np.ndarray[Any, Any]:
        """Return the elements of a weight; those in a file are mapped where their type allows it.

        Raises:
            FileError: their file is missing, cannot be read, or lies outside the folder.
            ModelError: the file is too short, or the weight is malformed.
        """
        if is_external(tensor):
            path, offset, length = self._place(tensor)
            if length == 0:
                return np.zeros(tuple(tensor.dims), plain_dtype(tensor) or np.uint8)
            return from_stored(tensor, np.memmap(path, np.uint8, "r", offset, (length,)))
        return elements(tensor)

    def _place(self, tensor: TensorProto) -> tuple[Path, int, int]:
        if location_of(tensor) == self._path.name:
            return located_weight(tensor, self._path.parent, (self._path.resolve().parent,))
        return located_weight(tensor, self._folder, self._trusted)
