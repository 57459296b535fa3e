"""Extending loaders, and constant methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import config, func
from polygraphy.exception import PolygraphyException, PolygraphyInternalException


def pair() -> tuple[str, str]:
    return "builder", "network"


class TestExtend:
    def test_passes_the_elements_of_a_tuple_and_returns_it(self) -> None:
        seen: list[Any] = []

        @func.extend(pair)
        def load(builder: str, network: str) -> None:
            seen.append((builder, network))

        assert load() == ("builder", "network")
        assert seen == [("builder", "network")]

    @pytest.mark.parametrize("value", ["engine", [1, 2], {"a": 1}, 0])
    def test_passes_anything_else_as_it_is(self, value: object) -> None:
        seen: list[object] = []
        assert func.extend(lambda: value)(seen.append)() is value
        assert seen == [value]
        assert seen[0] is value

    @pytest.mark.parametrize("value", [0, False, "", (), [], "new"])
    def test_a_returned_value_replaces_the_loaded_one_unless_it_is_none(
        self, value: object
    ) -> None:
        @func.extend(pair)
        def load(builder: str, network: str) -> Any:
            return value

        assert load() is value

    def test_calls_the_loader_each_time_and_not_before(self) -> None:
        calls: list[int] = []

        @func.extend(lambda: calls.append(1))
        def load() -> None: ...

        assert calls == []
        load()
        load()
        assert calls == [1, 1]

    def test_keeps_the_name_and_the_documentation(self) -> None:
        @func.extend(pair)
        def load_network(builder: str, network: str) -> None:
            """Load it."""

        assert load_network.__name__ == "load_network"
        assert load_network.__qualname__.endswith("load_network")
        assert load_network.__doc__ == "Load it."
        assert load_network.__module__ == __name__

    def test_does_not_pretend_to_need_the_loaded_values(self) -> None:
        @func.extend(pair)
        def load(builder: str, network: str) -> None: ...

        inspect.signature(load).bind()

    def test_extends_an_extension(self) -> None:
        @func.extend(pair)
        def first(builder: str, network: str) -> tuple[str, str]:
            return builder, network.upper()

        @func.extend(first)
        def second(builder: str, network: str) -> None:
            assert network == "NETWORK"

        assert second() == ("builder", "NETWORK")

    @pytest.mark.parametrize("value", [None, ()])
    def test_no_value_for_a_function_without_parameters(self, value: object) -> None:
        calls: list[int] = []

        @func.extend(lambda: value)
        def load() -> None:
            calls.append(1)

        assert load() is value
        assert calls == [1]

    def test_none_for_a_function_with_a_parameter(self) -> None:
        seen: list[object] = []
        func.extend(lambda: None)(seen.append)()
        assert seen == [None]

    def test_parameters_with_defaults_may_be_left_to_them(self) -> None:
        seen: list[object] = []

        @func.extend(pair)
        def load(builder: str, network: str, flag: str = "default") -> None:
            seen.append((builder, network, flag))

        load()
        assert seen == [("builder", "network", "default")]

    def test_a_function_of_any_number_of_values(self) -> None:
        seen: list[object] = []

        @func.extend(pair)
        def load(*values: str, option: int = 1) -> None:
            seen.append(values)

        load()
        assert seen == [("builder", "network")]


class TestExtendWithArguments:
    """The call's own arguments, which go before the values if there are parameters for them."""

    @staticmethod
    def sum_of(a: int, b: int = 5) -> tuple[int, int]:
        return a + b, a * b

    @pytest.mark.parametrize(
        "call",
        [
            lambda load: load(2, 3),
            lambda load: load(2, b=3),
            lambda load: load(a=2, b=3),
            lambda load: load(b=3, a=2),
        ],
    )
    def test_arguments_go_first(self, call: Callable[[Any], Any]) -> None:
        seen: list[object] = []

        @func.extend(self.sum_of)
        def load(a: int, b: int, total: int, product: int) -> None:
            seen.append((a, b, total, product))

        assert call(load) == (5, 6)
        assert seen == [(2, 3, 5, 6)]

    def test_arguments_by_a_name_that_the_function_does_not_have(self) -> None:
        seen: list[object] = []

        @func.extend(self.sum_of)
        def load(x: int, y: int, total: int, product: int) -> None:
            seen.append((x, y, total, product))

        load(b=3, a=2)
        assert seen == [(3, 2, 5, 6)]

    def test_arguments_that_the_function_has_no_parameters_for_are_the_loader_s_alone(self) -> None:
        seen: list[object] = []

        @func.extend(self.sum_of)
        def load(total: int, product: int) -> None:
            seen.append((total, product))

        load(2, b=3)
        assert seen == [(5, 6)]

    def test_arguments_go_before_defaults(self) -> None:
        seen: list[object] = []

        @func.extend(lambda x: x + 1)
        def load(x: int, y: int = 99) -> None:
            seen.append((x, y))

        load(7)
        assert seen == [(7, 8)]

    def test_overrides_a_method(self) -> None:
        class Base:
            def load(self, a: int) -> int:
                return a + 1

        class Derived(Base):
            @func.extend(Base.load)
            def load(self, a: int, loaded: int) -> int:
                return 10 * loaded + a

        assert Derived().load(4) == 54


class TestExtendMismatch:
    @pytest.mark.parametrize(
        "function",
        [
            lambda: None,
            lambda builder: None,
            lambda builder, network, parser: None,
            lambda builder, network, parser, more=1: None,
        ],
    )
    def test_wrong_number_of_parameters(self, function: Callable[..., None]) -> None:
        with pytest.raises(PolygraphyException) as raised:
            func.extend(pair)(function)()
        message = str(raised.value)
        names = ", ".join(inspect.signature(function).parameters) or "none"
        assert f"cannot extend {pair.__name__}" in message
        assert f"Its parameters: {names}\n" in message
        assert "Values (by type): str, str" in message

    @given(
        values=st.integers(0, 5),
        least=st.integers(0, 5),
        optional=st.integers(0, 3),
    )
    def test_fits_exactly_if_each_value_finds_a_parameter(
        self, values: int, least: int, optional: int
    ) -> None:
        names = [f"p{i}" for i in range(least)] + [f"q{i}=None" for i in range(optional)]
        function = eval(f"lambda {', '.join(names)}: None")
        load = func.extend(lambda: tuple(range(values)))(function)
        if least <= values <= least + optional:
            assert load() == tuple(range(values))
        else:
            with pytest.raises(PolygraphyException):
                load()


class Loader:
    def __init__(self) -> None:
        self.path: Any = "a"
        self.names = ["x"]

    @func.constantmethod
    def set(self, name: str, value: object) -> str:
        """Set it."""
        setattr(self, name, value)
        return "done"

    @func.constantmethod
    def delete(self) -> None:
        del self.path


class Slotted:
    __slots__ = ("path", "unset")

    def __init__(self) -> None:
        self.path = "a"

    @func.constantmethod
    def set(self, value: str) -> None:
        self.path = value


class Ambiguous:
    """Something like an array: equality has no single answer."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


class TestConstantMethod:
    @pytest.fixture
    def _checks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", True)

    def test_checks_nothing_by_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", False)
        loader = Loader()
        assert loader.set("path", "b") == "done"
        assert loader.path == "b"

    @pytest.mark.usefixtures("_checks")
    @pytest.mark.parametrize("name", ["path", "names", "new"])
    def test_reports_what_was_set(self, name: str) -> None:
        with pytest.raises(PolygraphyInternalException, match=rf"Loader\.set .* changed {name} of"):
            Loader().set(name, "b")

    @pytest.mark.usefixtures("_checks")
    def test_reports_what_was_deleted(self) -> None:
        with pytest.raises(PolygraphyInternalException, match="changed path of"):
            Loader().delete()

    @pytest.mark.usefixtures("_checks")
    def test_sees_slots(self) -> None:
        with pytest.raises(PolygraphyInternalException, match="changed path of"):
            Slotted().set("b")
        Slotted().set("a")

    @pytest.mark.usefixtures("_checks")
    def test_an_equal_value_is_no_change(self) -> None:
        assert Loader().set("names", ["x"]) == "done"

    @pytest.mark.usefixtures("_checks")
    def test_values_without_plain_equality_compare_by_identity(self) -> None:
        loader = Loader()
        value = loader.path = Ambiguous()
        assert loader.set("path", value) == "done"
        with pytest.raises(PolygraphyInternalException):
            loader.set("path", Ambiguous())

    def test_keeps_the_signature(self) -> None:
        assert list(inspect.signature(Loader.set).parameters) == ["self", "name", "value"]
        assert Loader.set.__doc__ == "Set it."
