"""Names that will be removed: they work until then, and say so where they are used."""

from __future__ import annotations

import sys

from polygraphy.logger import G_LOGGER
from polygraphy.mod.exporting import add_to_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T", bound=Callable[..., Any])

__all__ = ["deprecate", "export_deprecated_alias", "warn_deprecated"]

_PACKAGE = __name__.partition(".")[0]
_warned: set[tuple[str, str, int]] = set()


def warn_deprecated(
    name: str,
    use_instead: str | None,
    remove_in: str,
    module_name: str | None = None,
    always_show_warning: bool = False,
) -> None:
    """Warn, once for each place outside this package that leads here, that a name will be removed.

    Args:
        name: What is deprecated.
        use_instead: What to use in its place; None for nothing.
        remove_in: The version of this package that will not have it.
        module_name: The module of `name`, to be shown with it.
        always_show_warning: Warn each time.
    """
    frame = sys._getframe(1)
    depth = 1
    while frame.f_back is not None and _is_ours(frame.f_globals):
        frame = frame.f_back
        depth += 1
    location = (name, frame.f_code.co_filename, frame.f_lineno)
    if location in _warned and not always_show_warning:
        return
    _warned.add(location)
    qualified = f"{module_name}.{name}" if module_name else name
    advice = f" Use {use_instead} instead." if use_instead else ""
    G_LOGGER.log(
        f"{qualified} is deprecated and will be removed in Polygraphy {remove_in}.{advice}",
        G_LOGGER.WARNING,
        stack_depth=depth + 2,
    )


def _is_ours(namespace: dict[str, Any]) -> bool:
    """Return whether a namespace is that of a module of this package."""
    module = str(namespace.get("__name__"))
    return f"{module}.".startswith(f"{_PACKAGE}.")


def deprecate(
    remove_in: str,
    use_instead: str | None,
    module_name: str | None = None,
    name: str | None = None,
) -> Callable[[T], T]:
    """Return a decorator that warns if the function is called, or the class instantiated.

    Args:
        remove_in: The version of this package that will not have it.
        use_instead: What to use in its place; None for nothing.
        module_name: The module to show with its name.
        name: What to call it, if not by its own name.
    """

    def decorator(target: T) -> T:
        """Return the function or class with the warning."""

        def warn() -> None:
            """Warn that the name is deprecated."""
            warn_deprecated(name or target.__name__, use_instead, remove_in, module_name)

        if isinstance(target, type):
            _warn_in_init(target, warn)
            return target
        deprecated: T = _with_warning(target, warn)
        return deprecated

    return decorator


def export_deprecated_alias(
    name: str, remove_in: str, use_instead: str | None = None
) -> Callable[[T], T]:
    """Return a decorator that exports a function or a class under a second, deprecated name.

    Args:
        name: The second name, which is added to the namespace and to the `__all__` of the module.
        remove_in: The version of this package that will not have it.
        use_instead: What to use in its place; by default the first name.
    """

    def decorator(target: T) -> T:
        """Return the function or class; its alias is exported."""
        module = sys.modules[target.__module__]

        def warn() -> None:
            """Warn that the alias is deprecated."""
            warn_deprecated(name, use_instead or target.__name__, remove_in, module.__name__)

        is_class = isinstance(target, type)
        alias = _alias(target, name, warn) if is_class else _with_warning(target, warn)
        vars(module)[name] = alias
        add_to_all(module, name)
        return target

    return decorator


def _with_warning(function: Any, warn: Callable[[], None]) -> Any:
    """Return a function that warns before it calls the deprecated one."""
    from functools import wraps

    @wraps(function)
    def warn_and_call(*args: Any, **kwargs: Any) -> Any:
        """Warn, and return the result of the function."""
        warn()
        return function(*args, **kwargs)

    return warn_and_call


def _warn_in_init(deprecated: Any, warn: Callable[[], None]) -> None:
    # The class stays the same object, so that `isinstance`, `super` and `pickle` do not notice.
    """Change a class so that it warns when it is created."""
    init = deprecated.__init__
    takes_nothing = init is object.__init__ and deprecated.__new__ is not object.__new__

    def warning_init(self: Any, *args: Any, **kwargs: Any) -> None:
        """Warn, then initialize the object."""
        warn()
        if takes_nothing:
            init(self)  # `__new__` has already used the arguments.
        else:
            init(self, *args, **kwargs)

    warning_init.__wrapped__ = init  # type: ignore[attr-defined]
    deprecated.__init__ = warning_init


def _alias(original: Any, name: str, warn: Callable[[], None]) -> type:
    """Return a class that stands for `original`: it creates instances of it, and they are instances
    of the alias too.
    """

    class DeprecatedAlias(type(original)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Warn, and return an instance of the original class."""
            warn()
            if cls is alias:
                return original(*args, **kwargs)
            return super().__call__(*args, **kwargs)

        def __instancecheck__(cls, instance: object) -> bool:
            """Return whether an object is an instance of the original class."""
            if cls is alias:
                return isinstance(instance, original)
            return bool(super().__instancecheck__(instance))

        def __subclasscheck__(cls, subclass: type) -> bool:
            """Return whether a class is a subclass of the original class."""
            if cls is alias:
                return issubclass(subclass, original)
            return bool(super().__subclasscheck__(subclass))

    namespace = {"__doc__": original.__doc__, "__module__": original.__module__, "__slots__": ()}
    alias: type = DeprecatedAlias(name, (original,), namespace)
    return alias
