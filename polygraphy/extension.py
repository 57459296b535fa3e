"""Names for packages that add a backend to the command line; see examples/numpy_backend."""

from polygraphy.cli.backends.built_in import Backend
from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import (
    Choice,
    Choices,
    Flag,
    Integer,
    Kind,
    Number,
    PerName,
    Range,
    Script,
    Shapes,
    Text,
    Texts,
)
from polygraphy.cli.declare.option import Options, option
from polygraphy.domain.tensors.datatype import DataTypeConverter

__all__ = [
    "Backend",
    "BadValue",
    "Choice",
    "Choices",
    "DataTypeConverter",
    "Flag",
    "Integer",
    "Kind",
    "Number",
    "Options",
    "PerName",
    "Range",
    "Script",
    "Shapes",
    "Text",
    "Texts",
    "option",
]
