"""Public names of a module, and the immediate function that belongs to a loader class.

The function is written as source text and compiled, as `collections.namedtuple` does, because that
gives a plain function with a signature of its own, and errors that name it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from inspect import Parameter
    from typing import Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T", bound=Callable[..., Any])

__all__ = ["add_to_all", "export", "immediate_function"]


def export(funcify: bool = False, func_name: str | None = None) -> Callable[[T], T]:
    """Return a decorator that adds a function or a class to the `__all__` of its module.

    Args:
        funcify: Also export a function that makes an instance of the class and calls it at once.
            It takes the required parameters of `__init__`, those of `call_impl` (`__call__` of a
            class that has none), then the optional ones of both, then `*args` and `**kwargs` if one
            of them does.
        func_name: The function's name. By default that of the class in snake case: `GsFromOnnx`
            gives `gs_from_onnx`.

    The decorator raises a TypeError if both methods have a parameter of the same name.
    """

    def decorator(target: T) -> T:
        """Return the function or class; its name is exported."""
        module = sys.modules[target.__module__]
        add_to_all(module, target.__name__)
        if funcify:
            name = func_name or _snake_case(target.__name__)
            vars(module)[name] = immediate_function(target, name, vars(module))
            add_to_all(module, name)
        return target

    return decorator


def add_to_all(module: ModuleType, name: str) -> None:
    """Add a name to the `__all__` of a module; create the list if there is none."""
    names = vars(module).setdefault("__all__", [])
    if name not in names:
        names.append(name)


def _snake_case(name: str) -> str:
    """Return `name` in lower case, with an underscore before each capital but the first."""
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    return words.removeprefix("_")


def immediate_function(loader: Any, name: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that creates a `loader`, calls it and returns the result.

    Its parameters are the required ones of `__init__`, the required ones of `call_impl` (or of
    `__call__` for a class that has none), then the optional ones in the same order, then `*args`
    and `**kwargs` if one of the two takes them (`__init__` gets them if both do).

    Args:
        loader: The class.
        name: The name of the function.
        namespace: The globals of the function.

    Raises:
        TypeError: A parameter of one method has the name of a parameter of the other.
    """
    from inspect import cleandoc, signature

    work = getattr(loader, "call_impl", loader.__call__)
    is_own = loader.__init__ is not object.__init__
    init = [*signature(loader.__init__).parameters.values()][1:] if is_own else []
    called = signature(work)
    kinds = {parameter.kind for parameter in init if _accepts_rest(parameter)}
    call = [
        parameter for parameter in [*called.parameters.values()][1:] if parameter.kind not in kinds
    ]
    parameters = sorted([*init, *call], key=_parameter_key)
    for parameter in parameters:
        if [parameter.name for parameter in parameters].count(parameter.name) > 1:
            raise TypeError(
                f"{loader.__name__} cannot have an immediate function: "
                f"its constructor and its call both have a parameter {parameter.name!r}"
            )
    source = (
        f"def _make_(_loader_, _defaults_):\n"
        f"    def {name}({', '.join(map(_declare_parameter, parameters))}):\n"
        f"        return _loader_({_forward_arguments(init)})({_forward_arguments(call)})\n"
        f"    return {name}\n"
    )
    values: dict[str, Any] = {}
    exec(compile(source, f"<immediate function {name}>", "exec"), namespace, values)
    function: Any = values["_make_"](
        loader, {parameter.name: parameter.default for parameter in parameters}
    )
    function.__module__ = loader.__module__
    function.__qualname__ = name
    docs = [loader.__doc__, vars(loader).get("__init__", loader).__doc__, work.__doc__]
    headline = f"Immediately evaluated functional variant of :class:`{loader.__name__}`."
    unique = dict.fromkeys(cleandoc(doc) for doc in docs if doc)
    function.__doc__ = "\n\n".join([headline, *unique])
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    annotations["return"] = called.return_annotation
    function.__annotations__ = {
        name: kind for name, kind in annotations.items() if kind is not called.empty
    }
    immediate: Callable[..., Any] = function
    return immediate


def _accepts_rest(parameter: Parameter) -> bool:
    """Return whether a parameter accepts all other arguments."""
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _parameter_key(parameter: Parameter) -> tuple[int, bool]:
    """Return the sort key of a parameter: required ones first, those for other arguments last."""
    return (
        parameter.kind if _accepts_rest(parameter) else 0
    ), parameter.default is not parameter.empty


def _declare_parameter(parameter: Parameter) -> str:
    """Return a parameter with its default as source text."""
    if _accepts_rest(parameter):
        return str(parameter.replace(annotation=parameter.empty))
    required = parameter.default is parameter.empty
    return parameter.name if required else f"{parameter.name}=_defaults_[{parameter.name!r}]"


def _forward_arguments(parameters: Iterable[Parameter]) -> str:
    """Return the arguments of a call that passes variables of the same names on."""
    return ", ".join(
        f"{parameter.name}={parameter.name}" if parameter.kind is parameter.KEYWORD_ONLY
        else str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        for parameter in parameters
    )  # fmt: skip
