"""The inputs of a program: the matching inputs of a model, and their data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from polygraphy import mod
from polygraphy.adapters.torch.arrays import tensor_from
from polygraphy.adapters.torch.program import ExportedModule, Program
from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.metadata import TensorMetadata

torch = mod.lazy_import("torch>=2.2")
numpy = mod.lazy_import("numpy")


def input_names(program: Program, feed: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the name of the model's input for each input of a program: the same name,
    else the same position.

    Raises:
        InputError: the inputs do not match.
    """
    program.accept(feed)
    wanted = program.inputs()
    if wanted is None:
        return {name: name for name in feed}
    named: dict[str, str | None] = {name: name for name in wanted if name in feed}
    names = [name for name in feed if name not in named]
    missing = [name for name in wanted if name not in named]
    needless = program.unread_inputs() if isinstance(program, ExportedModule) else set()
    # Start with the inputs that match the fewest arrays, because their order may differ.
    for name in sorted(missing, key=lambda name: sum(_fits(feed[x], wanted[name]) for x in names)):
        fitting = (text for text in names if _fits(feed[text], wanted[name]))
        named[name] = (
            None if len(names) < len(missing) and name in needless else next(fitting, None)
        )
        if named[name] in names:
            names.remove(str(named[name]))
    unmatched = [name for name in wanted if named[name] is None and name not in needless]
    if unmatched or names:
        reference_name = ", ".join(
            name if meta.shape is None else f"{name} {_describe_type(meta.dtype, meta.shape)}"
            for name, meta in wanted.items()
        )
        text = ", ".join(
            f"{name} {_describe_type(array.dtype, array.shape)}" for name, array in feed.items()
        )
        if not names:
            listed = ", ".join(map(repr, unmatched))
            raise InputError(
                f"The model has no input for {listed} of the program: the exporter removed it, or"
                " wrote the value from the example into the model.",
                hint="Load a value for it, under its name in the program, with --load-inputs, or"
                " return a module that sets the value itself. Inputs of the program:"
                f" {reference_name}; of the model: {text or 'none'}.",
            )
        raise InputError(
            f"The inputs of the program ({reference_name or 'none'}) and of the model"
            f" ({text or 'none'}) differ: {', '.join(map(repr, unmatched or names))} of the"
            f" {'program' if unmatched else 'model'} has no counterpart.",
            hint="Pass the program from which the model was exported. If its inputs are nested,"
            " save it with torch.export.save.",
        )
    return {name: named[name] for name in wanted}


def _fits(array: Any, wanted: Any) -> bool:
    """Return whether an array has the shape and the kind of data type of an input."""
    if wanted.shape is None:  # Nothing is known about a parameter of `forward`.
        return True
    shape = numpy.shape(array)
    is_same = len(shape) == len(wanted.shape) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(wanted.shape, shape)
    )
    kinds = {"f": "f", "V": "f", "i": "i", "u": "i", "b": "b", "c": "c"}
    own_kind, kind = array.dtype.kind, wanted.dtype.numpy().kind
    return is_same and kinds.get(own_kind) == kinds.get(kind)


def _describe_type(dtype: Any, shape: Any) -> str:
    """Return data type and shape as text."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def fit_input(
    name: str,
    feed: Mapping[str, Any],
    source: str | None,
    described: TensorMetadata,
    device: Any,
) -> Any:
    """Return the data of an input in its data type;
    zeros for an input that the program does not read.
    """
    metadata = described.get(name)
    dtype = None if metadata is None or metadata.shape is None else metadata.dtype
    if source is None:
        shape = [dim if isinstance(dim, int) else 1 for dim in (metadata and metadata.shape) or ()]
        return torch.zeros(shape, dtype=dtype and dtype.torch(), device=device)
    tensor = tensor_from(name, feed[source], device)
    return tensor if dtype is None else tensor.to(dtype.torch())


def open_dimensions(
    program: Program, names: Mapping[str, str | None]
) -> Mapping[str, Mapping[int, str]]:
    """Return the names of dynamic dimensions of a program's inputs, by axis."""
    if not isinstance(program, ExportedModule):
        return MappingProxyType({})
    return {
        str(names[name]): {
            axis: dim for axis, dim in enumerate(meta.shape or ()) if isinstance(dim, str)
        }
        for name, meta in (program.inputs() or TensorMetadata()).items()
        if names.get(name)
    }
