"""Attributes, texts about objects, and queues between processes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from polygraphy.constants import TAB
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = [
    "TempAttrChange",
    "check_called_by",
    "getattr_nested",
    "indent_block",
    "is_inf",
    "is_nan",
    "make_repr",
    "str_from_layer",
    "try_getattr",
    "try_receive_on_queue",
    "try_send_on_queue",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class TempAttrChange:
    """Gives attributes of an object other values for the length of a `with` block."""

    def __init__(self, arg_group: Any, attr_values: Mapping[str, Any]) -> None:
        """Take the object, which has these attributes, and the values."""
        self._owner = arg_group
        self._values = attr_values

    def __enter__(self) -> None:
        self._before = {name: getattr(self._owner, name) for name in self._values}
        self._set(self._values)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._set(self._before)

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self._owner, name, value)


def getattr_nested(obj: Any, attr: str) -> Any:
    """Return an attribute of an attribute, and so on: ``a.b.c`` for the name ``b.c``."""
    for name in attr.split("."):
        obj = getattr(obj, name)
    return obj


def try_getattr(obj: Any, attr: str, default: Any = None) -> Any:
    """Return an attribute, or `default` if there is none."""
    return getattr(obj, attr, default)


def check_called_by(expected_caller_name: str) -> Callable[[Function], Function]:
    """Return a decorator that warns when a function is called by any but one of this name."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if sys._getframe(1).f_code.co_name != expected_caller_name:
                G_LOGGER.warning(
                    f"Calling '{function.__name__}()' directly is not recommended. Use"
                    f" '{expected_caller_name}()' instead."
                )
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def indent_block(block: Any, level: int = 1) -> str:
    """Return the text of something with each line indented by `level` times four spaces."""
    return "\n".join(TAB * level + line for line in str(block).split("\n"))


def is_nan(obj: Any) -> bool:
    """Return whether something is a `float` that is NaN."""
    return isinstance(obj, float) and math.isnan(obj)


def is_inf(obj: Any) -> bool:
    """Return whether something is a `float` that is infinite."""
    return isinstance(obj, float) and math.isinf(obj)


def make_repr(type_str: str, *args: Any, **kwargs: Any) -> tuple[str, bool, bool]:
    """Return the call that makes an object, as source text.

    Args:
        type_str: what is called.
        args: its arguments by position.
        kwargs: those by name, of which None is left out.

    Returns:
        The text, whether all of `args` are None, and whether all of `kwargs` are.
    """
    given = {name: value for name, value in kwargs.items() if value is not None}
    texts = [_as_source(value) for value in args]
    texts += [f"{name}={_as_source(value)}" for name, value in given.items()]
    return f"{type_str}({', '.join(texts)})", all(each is None for each in args), not given


def _as_source(value: Any) -> str:
    """Return the `repr` of a value, with calls for floats that have no literal."""
    if is_nan(value) or is_inf(value):
        return f"float('{value}')"
    if type(value) in (list, tuple):
        inner = ", ".join(map(_as_source, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is dict:
        pairs = (f"{_as_source(key)}: {_as_source(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def str_from_layer(
    prefix: str,
    index: int,
    name: str,
    op: str,
    input_names: Sequence[str],
    input_meta: TensorMetadata,
    output_names: Sequence[str],
    output_meta: TensorMetadata,
) -> str:
    """Return a text about a layer, whose end is a line feed.

    Args:
        prefix: what a layer is called: ``Node``, for instance.
        index: its place in the model.
        name: of the layer.
        op: what it computes.
        input_names: of the tensors that it takes.
        input_meta: what is known about these.
        output_names: of the tensors that it computes.
        output_meta: what is known about these.
    """
    inputs, outputs = _tensors(input_names, input_meta), _tensors(output_names, output_meta)
    arrow = f"\n{TAB} -> " if "\n" in inputs else " -> "
    return f"{prefix} {index:<4} | {name} [Op: {op}]\n{indent_block(inputs)}{arrow}{outputs}\n"


def _tensors(names: Sequence[str], known: TensorMetadata) -> str:
    from polygraphy.domain.tensors.metadata import TensorMetadata

    return str(TensorMetadata((name, known[name]) for name in names))


def try_send_on_queue(queue: Any, obj: Any) -> None:
    """Put an object into a queue; a warning says why it cannot be."""
    try:
        queue.put(obj)
    except Exception as error:  # Whatever stands between two processes.
        G_LOGGER.warning(f"Could not send on the queue: {type(error).__name__}: {error}")


def try_receive_on_queue(queue: Any, timeout: float | None = None) -> Any:
    """Return the next object of a queue; None, with a warning, if it cannot be had.

    Args:
        queue: the queue.
        timeout: how many seconds to wait (default: as long as it takes).
    """
    try:
        return queue.get(block=True, timeout=timeout)
    except Exception as error:  # Whatever stands between two processes.
        G_LOGGER.warning(f"Could not receive on the queue: {type(error).__name__}: {error}")
        return None
