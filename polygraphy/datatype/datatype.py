"""Another address of `polygraphy.datatype`, from which scripts import."""

from polygraphy.datatype import *  # noqa: F403


def _DataTypeKind(number: int) -> int:
    """Stand for a class that NVIDIA's pickles name; `DataTypeEntry` knows the kind by itself."""
    return number
