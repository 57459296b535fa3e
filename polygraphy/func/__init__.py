"""Functions that extend lazy loaders, and methods that leave their object unchanged."""

from __future__ import annotations

from polygraphy import config
from polygraphy.logger import G_LOGGER
from polygraphy.mod.deferred import defer_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Parameter
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["constantmethod", "extend"]

__getattr__ = defer_names(globals(), submodules=("func",))


def extend(extend_func: Callable[P, R]) -> Callable[[Callable[..., R | None]], Callable[P, R]]:
    """Return a decorator for a function that receives the return value of `extend_func`.

    The decorated function has the parameters of `extend_func`. It calls `extend_func`, passes its
    return value to the function (one argument for each element of a tuple), and returns the result
    of the function, or, if that is None, the return value of `extend_func`.

    If the function also has parameters for the arguments of the call, these come first; arguments
    by name keep their names.

    Args:
        extend_func: A loader, or any other callable.

    A call raises a PolygraphyException if the number of parameters does not match the number of
    values.

    ::

        @func.extend(NetworkFromOnnxPath("model.onnx"))
        def load_network(builder, network, parser):
            network.name = "model"
    """

    def decorator(function: Callable[..., R | None]) -> Callable[P, R]:
        """Return the function that calls `extend_func`, then the decorated function with its
        values.
        """
        from functools import update_wrapper

        def call_and_extend(*args: P.args, **kwargs: P.kwargs) -> R:
            """Return the result of the decorated function;
            if that is None, the result of `extend_func`.
            """
            loaded = extend_func(*args, **kwargs)
            arguments = _arguments(function, extend_func, args, kwargs, loaded)
            replacement = function(*arguments)
            return loaded if replacement is None else replacement

        update_wrapper(call_and_extend, function)
        # Without this attribute, `inspect` shows the parameters of `call_and_extend`, not those of
        # `function`.
        del call_and_extend.__wrapped__  # type: ignore[attr-defined]
        return call_and_extend

    return decorator


def _arguments(
    function: Callable[..., object],
    extend_func: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    loaded: object,
) -> list[object]:
    """Return the arguments of `function` for a call of `extend_func` that returned `loaded`.

    Raises:
        PolygraphyException: The function does not have as many parameters as there are values.
    """
    values = loaded if isinstance(loaded, tuple) else (loaded,)
    parameters = _positional_parameters(function)
    if parameters is None:
        return list(values)
    least = sum(parameter.default is parameter.empty for parameter in parameters)
    most = len(parameters)

    if loaded is None and most == 0:
        return []
    with_call = len(args) + len(kwargs) + len(values)
    # Prefer to fill all parameters, including those for the arguments of the call, to using
    # defaults.
    if with_call != most and least <= len(values) <= most:
        return list(values)
    if least <= with_call <= most:
        return _merge_arguments(parameters, args, kwargs, values)
    names = ", ".join(parameter.name for parameter in parameters) or "none"
    types = ", ".join(type(value).__name__ for value in values) or "none"
    G_LOGGER.critical(
        f"{_function_name(function)} cannot extend {_function_name(extend_func)}, because it does"
        f" not have one parameter for each value that it receives.\nIts parameters: {names}\n"
        f"Values (by type): {types}"
    )


def _positional_parameters(function: Callable[..., object]) -> list[Parameter] | None:
    """Return the parameters that take an argument by position, None if any number fits."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # A builtin without a signature.
        return None
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind in by_position]


def _merge_arguments(
    parameters: list[Parameter],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    values: tuple[object, ...],
) -> list[object]:
    """Return arguments in the order of `parameters`: those of the call, and between them `values`.

    Arguments of the call whose name no parameter has come first too, in their order.
    """
    free = [parameter.name for parameter in parameters[len(args) :]]
    by_name = {name: value for name, value in kwargs.items() if name in free}
    other_values = [value for name, value in kwargs.items() if name not in by_name]
    in_order = iter([*args, *other_values, *values])
    merged: list[object] = []
    for parameter in parameters:
        if parameter.name in by_name:
            merged.append(by_name[parameter.name])
        else:
            merged.append(next(in_order, parameter.default))
    return merged


def _function_name(function: Callable[..., object]) -> str:
    """Return the name of a function, or of the type of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


def constantmethod(func: Callable[P, R]) -> Callable[P, R]:
    """Return a method that must not set, replace or delete attributes of its object.

    If it does, and `config.INTERNAL_CORRECTNESS_CHECKS` is on, the decorated method raises a
    PolygraphyInternalException. Changes inside an attribute are not detected.
    """
    from functools import wraps

    @wraps(func)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the method; raise if it changes its object and checks are on."""
        if not config.INTERNAL_CORRECTNESS_CHECKS:
            return func(*args, **kwargs)
        return check_unchanged(args[0], _function_name(func), lambda: func(*args, **kwargs))

    return check_and_call


def check_unchanged(instance: object, method: str, call: Callable[[], R]) -> R:
    """Return the result of a method call; raise if it changes an attribute of the object."""
    before = _attributes(instance)
    result = call()
    after = _attributes(instance)
    changed = [
        name
        for name in sorted(before.keys() | after.keys())
        if not _is_same(before.get(name, _ABSENT), after.get(name, _ABSENT))
    ]
    if changed:
        G_LOGGER.internal_error(
            f"{type(instance).__name__}.{method} is a constant method, "
            f"but it changed {', '.join(changed)} of {instance!r}"
        )
    return result


_ABSENT = object()


def _attributes(instance: object) -> dict[str, object]:
    """Return all attributes of an object by name, slots included."""
    attributes = dict(getattr(instance, "__dict__", {}))
    for owner in type(instance).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(instance, name):
                attributes[name] = getattr(instance, name)
    return attributes


def _is_same(before: object, after: object) -> bool:
    """Return whether two values are identical or equal; False if they cannot be compared."""
    if before is after:
        return True
    try:
        return bool(before == after)
    except Exception:
        return False  # Some values, such as arrays, have no single result for `==`.
