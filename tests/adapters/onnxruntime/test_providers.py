"""Execution providers of plugins, with a stand-in for what ONNX Runtime knows of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from polygraphy.adapters.onnxruntime import providers as adapter
from polygraphy.adapters.onnxruntime.providers import (
    devices_of,
    library_of,
    match_providers,
    session_arguments,
)
from polygraphy.domain.errors import (
    BackendError,
    MissingFileError,
    UnknownNameError,
    UsageError,
)


def _device(provider: str, kind: str, **facts: str) -> Any:
    described = SimpleNamespace(type=SimpleNamespace(name=kind))
    return SimpleNamespace(ep_name=provider, device=described, ep_metadata=facts)


class Library:
    """A plugin that is not there: `devices` are those that it will have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.devices = [_device("NewProvider", "CPU"), _device("NewProvider", "GPU", id="GPU.1")]
        self.devices += [_device("NewProvider.AUTO", "CPU")]
        self.registered: list[tuple[str, str]] = []

    def register(self, name: str, path: str) -> None:
        if any(name == each for each, _ in self.registered):
            raise RuntimeError(f"[ONNXRuntimeError] : 1 : FAIL : {name} is already registered")
        self.registered.append((name, path))

    def known(self) -> list[Any]:
        return [_device("CPUExecutionProvider", "CPU"), *(self.devices if self.registered else [])]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Return a plugin; what is known of others is forgotten afterwards."""
    made = Library(tmp_path / "libnew.so")
    made.path.touch()
    monkeypatch.setattr(adapter, "_libraries", {})
    monkeypatch.setattr(adapter, "_process", adapter.OneProcess("A plugin"))
    monkeypatch.setattr(
        onnxruntime, "register_execution_provider_library", made.register, raising=False
    )
    monkeypatch.setattr(onnxruntime, "get_ep_devices", made.known, raising=False)
    return made


class Options:
    """Options of a session; they note what is added."""

    def __init__(self) -> None:
        self.added: list[tuple[Any, Any]] = []

    def add_provider_for_devices(self, devices: Any, options: Any) -> None:
        self.added.append((devices, options))

    def add_provider(self, name: str, options: Any) -> None:
        self.added.append((name, options))


def _matched(library: Library, *providers: Any, name: str = "new") -> Any:
    return match_providers(providers, {name: str(library.path)})


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("new", "NewProvider"),
        ("newprov", "NewProvider"),
        ("NEWPROVIDER", "NewProvider"),
        ("NewProvider.AUTO", "NewProvider.AUTO"),
        (("new", {"a": "1"}), ("NewProvider", {"a": "1"})),
        ("cpu", "CPUExecutionProvider"),
    ],
)
def test_a_provider_goes_by_the_name_of_its_plugin_or_its_own(
    library: Library, wanted: Any, found: Any
) -> None:
    assert _matched(library, wanted) == [found]


def test_a_plugin_is_registered_once(library: Library) -> None:
    for _ in range(3):
        _matched(library, "new")
    assert library.registered == [("new", str(library.path))]


def test_what_is_built_in_is_chosen_as_ever(library: Library) -> None:
    options: Any = Options()
    assert session_arguments(options, _matched(library, "cpu")) == {
        "providers": ["CPUExecutionProvider"]
    }
    assert not options.added


def test_those_of_plugins_are_told_to_the_options_in_order(library: Library) -> None:
    options: Any = Options()
    wanted = _matched(library, ("new", {"threads": 2}), "cpu")
    assert session_arguments(options, wanted) == {}
    assert options.added == [([library.devices[0]], {"threads": "2"}), ("CPUExecutionProvider", {})]


@pytest.mark.parametrize(("word", "index"), [("cpu", 0), ("GPU", 1), ("gpu.1", 1)])
def test_an_option_chooses_the_device(library: Library, word: str, index: int) -> None:
    options: Any = Options()
    session_arguments(options, _matched(library, ("new", {"device": word, "a": "b"})))
    assert options.added == [([library.devices[index]], {"a": "b"})]


def test_a_device_that_is_not_there_is_named_with_those_that_are(library: Library) -> None:
    with pytest.raises(UnknownNameError, match=r"'NPU' does not exist. Available: 'CPU', 'GPU'"):
        session_arguments(Options(), _matched(library, ("new", {"device": "NPU"})))  # type: ignore[arg-type]


@pytest.mark.parametrize("wanted", ["warp", "WarpExecutionProvider"])
def test_an_installed_plugin_that_was_not_given_is_named(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = [("onnxruntime-ep-warp 1.0", "onnxruntime_ep_warp")]
    monkeypatch.setattr(adapter, "plugin_packages", lambda: installed)
    with pytest.raises(UnknownNameError, match="--provider-library warp=onnxruntime_ep_warp"):
        match_providers([wanted])


def test_a_plugin_without_a_device_here_says_so(library: Library) -> None:
    library.devices = []
    assert _matched(library, "cpu") == ["CPUExecutionProvider"]
    with pytest.raises(BackendError, match="is registered, but no device for it was found"):
        _matched(library, "new")
    assert devices_of("new", str(library.path)) == []


def _is_old(library: Library, patch: pytest.MonkeyPatch) -> None:
    patch.delattr(onnxruntime, "register_execution_provider_library")


def _is_built_in(library: Library, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(onnxruntime, "get_available_providers", lambda: ["New"])


def _is_taken(library: Library, patch: pytest.MonkeyPatch) -> None:
    library.registered.append(("new", "another"))  # By another part of the program.


def _has_another_name(library: Library, patch: pytest.MonkeyPatch) -> None:
    _matched(library, "cpu", name="first")


def _is_none(library: Library, patch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, path: str) -> None:
        raise RuntimeError(
            f"[ONNXRuntimeError] : 1 : FAIL : Failed to load library {path} with error: {path}:"
            " invalid ELF header"
        )

    patch.setattr(onnxruntime, "register_execution_provider_library", refuse)


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (_is_old, r"does not support provider libraries; use 1\.23 or later"),
        (_is_built_in, "the name 'new' belongs to a different library or to a provider"),
        (_is_taken, "the name 'new' belongs to a different library or to a provider"),
        (_has_another_name, "is already registered as 'first'"),
        (_is_none, r"cannot load the provider library \S+libnew.so: invalid ELF header\."),
    ],
)
def test_what_cannot_be_registered_is_one_line(
    library: Library, monkeypatch: pytest.MonkeyPatch, happens: Callable[..., None], said: str
) -> None:
    happens(library, monkeypatch)
    with pytest.raises(BackendError, match=said) as caught:
        _matched(library, "new")
    assert caught.value.exit_code == 3 and "\n" not in str(caught.value)


def test_the_real_one_refuses_files_of_another_kind(tmp_path: Path) -> None:
    if not hasattr(onnxruntime, "register_execution_provider_library"):
        pytest.skip("this ONNX Runtime takes no plugins")
    text = tmp_path / "text.so"
    text.write_text("no library")
    for path, said in ((text, r"text\.so: \S"), (_shared_library(), "CreateEpFactories")):
        with pytest.raises(BackendError, match=said):
            match_providers(["cpu"], {"odd": str(path)})


def _shared_library() -> Path:
    """Return one that is no plugin: a module of ONNX Runtime's own."""
    return next(Path(onnxruntime.__file__).parent.rglob("*pybind11_state*.so"))


def test_a_module_tells_where_its_library_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "plugin_a.py").write_text("def get_library_path(): return '/opt/a.so'")
    (tmp_path / "plugin_b.py").write_text("def get_library_path(): raise OSError('not built')")
    (tmp_path / "plugin_c.py").write_text("")
    (tmp_path / "d.so").touch()
    monkeypatch.chdir(tmp_path)
    assert library_of("plugin_a") == "/opt/a.so"
    assert library_of("d.so") == str(tmp_path / "d.so")
    for source, kind, said in (
        ("plugin_b", BackendError, "does not return the path of its library: not built"),
        ("plugin_c", BackendError, "no function get_library_path"),
        ("plugin_d", MissingFileError, "neither a file nor a module"),
        ("e.so", MissingFileError, "neither a file nor a module"),
        ("a/e.so", MissingFileError, "is not a file"),
        (".", MissingFileError, "is not a file"),
    ):
        with pytest.raises(kind, match=said):
            library_of(source)
    for name in ("plugin_a", "plugin_b", "plugin_c"):
        sys.modules.pop(name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
def test_a_forked_process_does_not_wait_for_the_threads_of_a_plugin(library: Library) -> None:
    from polygraphy.adapters.processes.forked import call_isolated

    wanted = _matched(library, "new")
    call_isolated(lambda: session_arguments(Options(), wanted), what="first", timeout=20)  # type: ignore[arg-type]
    session_arguments(Options(), wanted)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="A plugin ran in the parent process"):
        call_isolated(lambda: session_arguments(Options(), wanted), what="second", timeout=20)  # type: ignore[arg-type]
