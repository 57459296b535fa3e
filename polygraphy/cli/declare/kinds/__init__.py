"""How the words that follow an option become a value, and a value becomes words."""

from polygraphy.cli.declare.kinds.base import Count, Flag, Kind, Ordered
from polygraphy.cli.declare.kinds.numbers import (
    Integer,
    Integers,
    Number,
    NumberOrAuto,
    Range,
    bracketed,
    integer,
    number,
)
from polygraphy.cli.declare.kinds.per_name import (
    PerName,
    Preprocessing,
    Provider,
    Providers,
    Statistics,
)
from polygraphy.cli.declare.kinds.shapes import Shapes
from polygraphy.cli.declare.kinds.texts import (
    Assignments,
    Choice,
    Choices,
    Script,
    Text,
    Texts,
)

__all__ = [
    "Assignments",
    "Choice",
    "Choices",
    "Count",
    "Flag",
    "Integer",
    "Integers",
    "Kind",
    "Number",
    "NumberOrAuto",
    "Ordered",
    "PerName",
    "Preprocessing",
    "Provider",
    "Providers",
    "Range",
    "Script",
    "Shapes",
    "Statistics",
    "Text",
    "Texts",
    "bracketed",
    "integer",
    "number",
]
