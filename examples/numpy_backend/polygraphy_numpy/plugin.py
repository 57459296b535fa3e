"""What the command line learns of this backend: a flag, an option, and who writes the program."""

from __future__ import annotations

from attrs import frozen

from polygraphy.extension import Backend, Choice, Options, option

__all__ = ["BACKEND", "NumpyOptions"]


@frozen
class NumpyOptions(Options):
    """NumPy: how --numpy computes."""

    dtype: str | None = option(
        "--numpy-dtype",
        kind=Choice("float32", "float64"),
        help="Data type of all arithmetic (default: the data type of the model). Outputs are"
        " converted back.",
    )


BACKEND = Backend(
    title="NumPy",
    help="Run the model in NumPy. Supports a few operators, in float32 or float64.",
    options=NumpyOptions,
)
