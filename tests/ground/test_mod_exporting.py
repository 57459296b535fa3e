"""Exported names, immediate functions, and names that will be removed."""

from __future__ import annotations

import inspect
import pickle
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import mod
from polygraphy.mod.exporting import immediate_function

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module to export from; `define` runs source in it."""
    made = types.ModuleType("loaders_of_a_test")
    made.mod = mod  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    yield made


def define(module: types.ModuleType, source: str, path: str = "loaders.py") -> Any:
    exec(compile(source, path, "exec"), vars(module))
    return module


class TestExport:
    def test_adds_names_to_all(self, module: types.ModuleType) -> None:
        define(
            module,
            "@mod.export()\ndef first(): pass\n"
            "@mod.export()\nclass Second: pass\n"
            "@mod.export()\ndef first(): pass\n",
        )
        assert module.__all__ == ["first", "Second"]

    def test_keeps_what_is_there(self, module: types.ModuleType) -> None:
        define(module, "__all__ = ['zero']\n@mod.export()\ndef first(): pass\n")
        assert module.__all__ == ["zero", "first"]

    def test_returns_what_it_decorates(self, module: types.ModuleType) -> None:
        assert define(module, "@mod.export()\ndef first(): return 1").first() == 1

    @pytest.mark.parametrize(
        ("class_name", "function"),
        [
            ("GsFromOnnx", "gs_from_onnx"),
            ("ConvertToFp16", "convert_to_fp16"),
            ("SaveOnnx", "save_onnx"),
            ("OnnxFromTfGraph", "onnx_from_tf_graph"),
        ],
    )
    def test_immediate_function_in_snake_case(
        self, module: types.ModuleType, class_name: str, function: str
    ) -> None:
        source = f"@mod.export(funcify=True)\nclass {class_name}:\n    def call_impl(self): pass\n"
        define(module, source)
        assert module.__all__ == [class_name, function]
        assert callable(getattr(module, function))

    def test_name_of_the_function(self, module: types.ModuleType) -> None:
        define(
            module,
            "@mod.export(funcify=True, func_name='create_config_rtx')\n"
            "class CreateConfigRTX:\n    def call_impl(self): return 3\n"
            "    def __call__(self): return self.call_impl()\n",
        )
        assert module.__all__ == ["CreateConfigRTX", "create_config_rtx"]
        assert module.create_config_rtx() == 3


class BaseLoader:
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_impl(*args, **kwargs)

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class GsFromOnnx(BaseLoader):
    """Load a graph.

    With care.
    """

    def __init__(self, model: str, copy: bool = False) -> None:
        """
        Args:
            model: The model.
                Its path.
        """
        self.seen = (model, copy)

    def call_impl(self, builder: int, flags: list[str] | None = None) -> tuple[Any, ...]:
        """Call it."""
        return (*self.seen, builder, flags)


def immediate(loader: type, name: str = "immediate") -> Callable[..., Any]:
    return immediate_function(loader, name, globals())


class TestImmediateFunction:
    def test_signature(self) -> None:
        function = immediate(GsFromOnnx, "gs_from_onnx")
        assert str(inspect.signature(function)) == (
            "(model: 'str', builder: 'int', copy: 'bool' = False, "
            "flags: 'list[str] | None' = None) -> 'tuple[Any, ...]'"
        )
        assert typing.get_type_hints(function)["builder"] is int

    def test_is_a_plain_function(self) -> None:
        function = immediate(GsFromOnnx, "gs_from_onnx")
        assert isinstance(function, types.FunctionType)
        assert (function.__name__, function.__qualname__) == ("gs_from_onnx", "gs_from_onnx")
        assert function.__module__ == __name__

    def test_documentation(self) -> None:
        assert immediate(GsFromOnnx).__doc__ == (
            "Immediately evaluated functional variant of :class:`GsFromOnnx`.\n\n"
            "Load a graph.\n\nWith care.\n\n"
            "Args:\n    model: The model.\n        Its path.\n\nCall it."
        )

    @pytest.mark.parametrize(
        ("args", "kwargs", "expected"),
        [
            (("m", 1), {}, ("m", False, 1, None)),
            (("m", 1, True, ["f"]), {}, ("m", True, 1, ["f"])),
            (("m",), {"flags": ["f"], "builder": 1}, ("m", False, 1, ["f"])),
        ],
    )
    def test_call(self, args: Any, kwargs: Any, expected: Any) -> None:
        assert immediate(GsFromOnnx)(*args, **kwargs) == expected

    def test_wrong_arguments_are_reported_in_its_name(self) -> None:
        function = immediate(GsFromOnnx, "gs_from_onnx")
        with pytest.raises(TypeError, match=r"gs_from_onnx\(\) missing 1 .* argument: 'builder'"):
            function("m")
        with pytest.raises(TypeError, match=r"gs_from_onnx\(\) got an unexpected .* 'other'"):
            function("m", 1, other=2)

    def test_no_constructor(self) -> None:
        class Load(BaseLoader):
            def call_impl(self, a: int) -> int:
                return a

        assert str(inspect.signature(immediate(Load))) == "(a: 'int') -> 'int'"
        assert immediate(Load)(3) == 3

    def test_call_without_call_impl(self) -> None:
        class Load:
            def __init__(self, a: int) -> None:
                self.a = a

            def __call__(self, b: int) -> tuple[int, int]:
                return self.a, b

        assert immediate(Load)(1, 2) == (1, 2)

    def test_inherited_methods(self) -> None:
        class Derived(GsFromOnnx):
            pass

        assert immediate(Derived)("m", 1) == ("m", False, 1, None)

    def test_decorated_methods(self) -> None:
        from polygraphy import func

        class Load(BaseLoader):
            @func.constantmethod
            def call_impl(self, a: int, b: int = 2) -> tuple[int, int]:
                return a, b

        assert list(inspect.signature(immediate(Load)).parameters) == ["a", "b"]
        assert immediate(Load)(1) == (1, 2)

    def test_more_arguments_for_the_constructor(self) -> None:
        class Load(BaseLoader):
            def __init__(self, a: Any, *rest: Any, b: Any = 3, **more: Any) -> None:
                self.seen = [a, rest, b, more]

            def call_impl(self, c: Any, d: Any = 4) -> Any:
                return [*self.seen, c, d]

        function = immediate(Load)
        assert list(inspect.signature(function).parameters) == ["a", "c", "b", "d", "rest", "more"]
        assert function(1, 2, 3, 4, 5, 6, z=7) == [1, (5, 6), 3, {"z": 7}, 2, 4]

    def test_more_arguments_for_the_call(self) -> None:
        class Invoke(BaseLoader):
            def __init__(self, path: str, name: str) -> None:
                self.seen = (path, name)

            def call_impl(self, *args: Any, **kwargs: Any) -> Any:
                return (*self.seen, args, kwargs)

        function = immediate(Invoke)
        assert list(inspect.signature(function).parameters) == ["path", "name", "args", "kwargs"]
        assert function("p", "n", 1, 2, x=3) == ("p", "n", (1, 2), {"x": 3})

    def test_more_arguments_for_both_go_to_the_constructor(self) -> None:
        class Load:
            def __init__(self, *values: Any, **options: Any) -> None:
                self.seen = (values, options)

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return (*self.seen, args, kwargs)

        assert immediate(Load)(1, x=2) == ((1,), {"x": 2}, (), {})

    def test_defaults_are_the_same_objects(self) -> None:
        default = object()

        class Load(BaseLoader):
            def __init__(self, a: object = default) -> None:
                self.a = a

            def call_impl(self) -> object:
                return self.a

        assert immediate(Load)() is default

    @pytest.mark.parametrize("call", ["a", "*a", "**a", "b, *, a=1"])
    def test_shared_names_are_refused(self, call: str) -> None:
        namespace: dict[str, Any] = {}
        exec(
            f"class Load:\n    def __init__(self, a): pass\n    def __call__(self, {call}): pass",
            {"__name__": __name__},
            namespace,
        )
        with pytest.raises(TypeError, match="both have a parameter 'a'"):
            immediate(namespace["Load"])

    @given(
        init=st.lists(st.sampled_from(["", "=1", "=None"]), max_size=4),
        call=st.lists(st.sampled_from(["", "=2", "=None"]), max_size=4),
        init_kind=st.sampled_from(["", "*, "]),
        call_kind=st.sampled_from(["", "*, "]),
        data=st.data(),
    )
    def test_equals_making_and_calling(
        self, init: list[str], call: list[str], init_kind: str, call_kind: str, data: st.DataObject
    ) -> None:
        def parameters(prefix: str, defaults: list[str], kind: str) -> tuple[list[str], str]:
            defaults = sorted(defaults, key=bool)
            names = [f"{prefix}{i}" for i in range(len(defaults))]
            listed = [a + b for a, b in zip(names, defaults, strict=True)]
            return names, (kind if names else "") + ", ".join(listed)

        init_names, init_source = parameters("i", init, init_kind)
        call_names, call_source = parameters("c", call, call_kind)
        namespace: dict[str, Any] = {}
        exec(
            "class Load:\n"
            f"    def __init__(self, {init_source}): self.seen = [{', '.join(init_names)}]\n"
            f"    def __call__(self, {call_source}): return self.seen + [{', '.join(call_names)}]",
            {"__name__": __name__},
            namespace,
        )
        load = namespace["Load"]
        required = [p for p, d in zip(init_names, sorted(init, key=bool), strict=True) if not d]
        required += [p for p, d in zip(call_names, sorted(call, key=bool), strict=True) if not d]
        optional = [name for name in init_names + call_names if name not in required]
        function = immediate(load)
        assert list(inspect.signature(function).parameters) == required + optional
        given_names = required + data.draw(st.lists(st.sampled_from(optional or [""]), unique=True))
        values = {name: f"value of {name}" for name in given_names if name}
        for_init = {name: value for name, value in values.items() if name in init_names}
        for_call = {name: value for name, value in values.items() if name in call_names}
        assert function(**values) == load(**for_init)(**for_call)


class Old:
    """A class of the past."""

    def __init__(self, value: int, other: int = 2) -> None:
        self.value = value


Deprecated = mod.deprecate("9.0", "New")(Old)


class Pair(tuple[int, int]):
    def __new__(cls, a: int, b: int) -> Pair:
        return super().__new__(cls, (a, b))


def shown(capsys: Capture) -> list[str]:
    return capsys.readouterr().out.splitlines()


class TestWarnDeprecated:
    def test_once_per_place(self, capsys: Capture) -> None:
        for _ in range(3):
            mod.warn_deprecated("thing", "other", "9.0")
        mod.warn_deprecated("thing", "other", "9.0")
        assert (
            shown(capsys)
            == ["[W] thing is deprecated and will be removed in Polygraphy 9.0. Use other instead."]
            * 2
        )

    def test_once_per_name(self, capsys: Capture) -> None:
        for name in ("a", "b", "a"):
            mod.warn_deprecated(name, None, "9.0", module_name="pack.age")
        assert shown(capsys) == [
            f"[W] pack.age.{name} is deprecated and will be removed in Polygraphy 9.0."
            for name in ("a", "b")
        ]

    def test_always(self, capsys: Capture) -> None:
        for _ in range(2):
            mod.warn_deprecated("always", None, "9.0", always_show_warning=True)
        assert len(shown(capsys)) == 2

    def test_the_place_is_outside_of_the_package(
        self, capsys: Capture, module: types.ModuleType
    ) -> None:
        from polygraphy.logger import G_LOGGER

        module.__name__ = "polygraphy.backend.loaders"
        define(module, "def use(): inner()\ndef inner(): mod.warn_deprecated('x', None, '9.0')\n")
        G_LOGGER.line_info = True
        for _ in range(2):
            module.use()
        line = sys._getframe().f_lineno - 1
        module.use()
        out = shown(capsys)
        name = Path(__file__).name
        assert [text.partition(" x is")[0] for text in out] == [
            f"[W] [{name}:{line}]",
            f"[W] [{name}:{line + 2}]",
        ]


class TestDeprecate:
    def test_a_function(self, capsys: Capture) -> None:
        @mod.deprecate("9.0", use_instead="new")
        def old(a: int) -> int:
            """Do it."""
            return a + 1

        assert shown(capsys) == []
        assert old(1) == 2
        assert shown(capsys) == [
            "[W] old is deprecated and will be removed in Polygraphy 9.0. Use new instead."
        ]
        assert (old.__name__, old.__doc__) == ("old", "Do it.")
        assert list(inspect.signature(old).parameters) == ["a"]

    def test_names_to_show(self, capsys: Capture) -> None:
        mod.deprecate("9.0", None, module_name="pack", name="Class.method")(lambda: None)()
        assert shown(capsys)[0].startswith("[W] pack.Class.method is deprecated")

    def test_a_class_stays_what_it_is(self, capsys: Capture) -> None:
        assert Deprecated is Old
        old = Deprecated(3)
        assert old.value == 3
        assert shown(capsys) == [
            "[W] Old is deprecated and will be removed in Polygraphy 9.0. Use New instead."
        ]
        assert pickle.loads(pickle.dumps(old)).value == 3
        assert list(inspect.signature(Deprecated).parameters) == ["value", "other"]

    def test_a_class_without_a_constructor(self, capsys: Capture) -> None:
        assert mod.deprecate("9.0", None)(Pair)(1, 2) == (1, 2)
        empty = mod.deprecate("9.0", None)(type("Empty", (), {}))
        empty()
        assert len(shown(capsys)) == 2
        with pytest.raises(TypeError):
            empty(1)


class TestDeprecatedAlias:
    def test_a_function(self, module: types.ModuleType, capsys: Capture) -> None:
        define(
            module,
            "@mod.export()\n@mod.export_deprecated_alias('old', remove_in='9.0')\n"
            "def new(a): return a + 1\n",
        )
        assert module.__all__ == ["old", "new"]
        assert module.new(1) == 2
        assert shown(capsys) == []
        assert module.old(1) == 2
        assert shown(capsys) == [
            "[W] loaders_of_a_test.old is deprecated and will be removed in Polygraphy 9.0. "
            "Use new instead."
        ]

    def test_a_class(self, module: types.ModuleType, capsys: Capture) -> None:
        define(
            module,
            "@mod.export_deprecated_alias('Old', remove_in='9.0', use_instead='something')\n"
            "class New:\n    '''Documented.'''\n    def __init__(self, a): self.a = a\n"
            "class Derived(New): pass\n",
        )
        assert isinstance(module.New(1), module.Old)
        assert isinstance(module.Derived(1), module.Old)
        assert issubclass(module.New, module.Old)
        assert not isinstance(3, module.Old)
        assert shown(capsys) == []
        old = module.Old(2)
        assert type(old) is module.New
        assert old.a == 2
        assert shown(capsys)[0].endswith("removed in Polygraphy 9.0. Use something instead.")
        assert (module.Old.__name__, module.Old.__doc__) == ("Old", "Documented.")

    def test_a_class_derived_from_the_alias(
        self, module: types.ModuleType, capsys: Capture
    ) -> None:
        define(
            module,
            "@mod.export_deprecated_alias('Old', remove_in='9.0')\nclass New:\n    a = 1\n"
            "class Mine(Old):\n    b = 2\n",
        )
        mine = module.Mine()
        assert type(mine) is module.Mine
        assert (mine.a, mine.b) == (1, 2)
        assert isinstance(mine, module.New)
        assert not isinstance(module.New(), module.Mine)
        assert issubclass(module.Mine, module.Old)
        assert not issubclass(module.New, module.Mine)
        assert len(shown(capsys)) == 1
