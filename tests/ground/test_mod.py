"""Lazy imports, and the installation of what is missing."""

from __future__ import annotations

import copy
import io
import pickle
import re
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from polygraphy import config, mod
from polygraphy.exception import MissingDependencyError
from polygraphy.logger import G_LOGGER
from polygraphy.mod import dependency
from polygraphy.termination import end_program

Capture = pytest.CaptureFixture[str]

# What a test puts here vanishes from `sys.modules` after it.
_PREFIX = "polygraphy_test_"


@pytest.fixture(autouse=True)
def _no_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "AUTOINSTALL_DEPS", False)
    monkeypatch.setattr(config, "ASK_BEFORE_INSTALL", False)
    monkeypatch.setattr(config, "INSTALL_CMD", [sys.executable, "-m", "pip", "install"])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules, all of whose names start with `_PREFIX`."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.startswith(_PREFIX)]:
        del sys.modules[name]


Write = Callable[..., str]


@pytest.fixture
def write(site: Path) -> Write:
    """Return a function that writes a module, and package metadata if given a version for them."""

    def write(name: str, source: str = "", metadata: str | None = None) -> str:
        qualified = _PREFIX + name
        path = site / (qualified.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        if metadata is not None:
            info = site / f"{qualified}-{metadata}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {qualified}\nVersion: {metadata}\n"
            )
        return qualified

    return write


class TestLazyImport:
    def test_imports_when_an_attribute_is_used(self, write: Write) -> None:
        name = write("a", "value = 3")
        lazy = mod.lazy_import(name)
        assert name not in sys.modules
        assert lazy.value == 3
        assert name in sys.modules

    def test_sets_deletes_and_lists_attributes_of_the_module(self, write: Write) -> None:
        lazy = mod.lazy_import(write("a", "value = 3"))
        lazy.other = 4
        module = sys.modules[_PREFIX + "a"]
        assert module.other == 4
        assert {"value", "other"} <= set(dir(lazy))
        del lazy.other
        assert not hasattr(module, "other")
        with pytest.raises(AttributeError):
            _ = lazy.other

    def test_sees_what_becomes_of_the_module(self, write: Write) -> None:
        lazy = mod.lazy_import(write("a", "value = 3"))
        assert lazy.value == 3
        sys.modules[_PREFIX + "a"].value = 5  # type: ignore[attr-defined]
        assert lazy.value == 5

    def test_a_submodule(self, write: Write) -> None:
        write("pack.__init__", "value = 1")
        name = write("pack.sub", "value = 2")
        assert mod.lazy_import(name).value == 2

    def test_looking_for_special_attributes_imports_nothing(self, write: Write) -> None:
        name = write("a")
        lazy = mod.lazy_import(name)
        assert not hasattr(lazy, "__wrapped__")
        assert not hasattr(lazy, "__array__")
        assert "not imported yet" in repr(lazy)
        assert repr(name) in repr(lazy)
        assert name not in sys.modules
        assert lazy.__file__.endswith("a.py")
        assert "not imported yet" not in repr(lazy)

    def test_copies_and_pickles(self, write: Write) -> None:
        lazy = mod.lazy_import(write("a", "value = 3"))
        for _ in range(2):
            assert copy.deepcopy(lazy).value == 3
            assert pickle.loads(pickle.dumps(lazy)).value == 3
            assert lazy.value == 3  # From now on imported.

    def test_logs_once_what_is_used(self, write: Write, capsys: Capture) -> None:
        name = write("a", "__version__ = '1.2'")
        quiet = write("b")
        G_LOGGER.module_severity = G_LOGGER.VERBOSE
        for _ in range(2):
            assert mod.lazy_import(name).__version__
            assert mod.lazy_import(quiet, log=False).__file__
        out = capsys.readouterr().out
        assert out.startswith(f"[V] Loaded Module: {name} | Version: 1.2 | Path: [")
        assert out.count("\n") == 1

    def test_threads_may_use_it_at_once(self, write: Write) -> None:
        lazy = mod.lazy_import(write("a", "import time; time.sleep(0.05); value = 3"))
        values: list[int] = []
        threads = [threading.Thread(target=lambda: values.append(lazy.value)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert values == [3] * 8

    @pytest.mark.skipif(sys.platform == "win32", reason="a process sends itself signals")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_waits_until_the_module_is_there(
        self, number: signal.Signals, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # An extension module that is interrupted says that its "initialization failed".
        source = f"import os, signal; os.kill(os.getpid(), {number:d}); is_whole = True"
        name = write("a", source)
        before = signal.signal(signal.SIGTERM, end_program)
        try:
            with pytest.raises((KeyboardInterrupt, SystemExit)):
                mod.lazy_import(name).__file__  # noqa: B018
        finally:
            signal.signal(signal.SIGTERM, before)
        assert sys.modules[name].is_whole

    def test_malformed_specifier(self) -> None:
        with pytest.raises(ValueError, match="'~=1'"):
            mod.lazy_import("numpy~=1")
        with pytest.raises(ValueError, match="'=1'"):
            mod.lazy_import("numpy", requires=["torch=1"])


class TestInstalled:
    def test_without_importing(self, write: Write) -> None:
        name = write("a", "raise SystemExit")
        assert mod.has_mod(name)
        assert mod.lazy_import(name + ">=99").is_installed()
        assert name not in sys.modules

    def test_missing(self) -> None:
        assert not mod.has_mod(_PREFIX + "missing")
        assert not mod.has_mod(_PREFIX + "missing.sub")

    def test_a_submodule_without_its_parent(self, write: Write) -> None:
        write("pack.__init__", "raise SystemExit")
        name = write("pack.sub")
        assert mod.has_mod(name)
        assert not mod.has_mod(name + ".deeper")
        assert not mod.has_mod(_PREFIX + "pack.other")
        assert _PREFIX + "pack" not in sys.modules

    def test_a_submodule_of_a_namespace(self, write: Write) -> None:
        assert mod.has_mod(write("space.sub"))

    def test_a_module_that_only_exists_at_run_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name = _PREFIX + "virtual"
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        assert mod.has_mod(name)
        assert mod.has_mod("os.path")
        assert mod.has_mod("sys")

    def test_one_that_must_not_be_imported(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = write("a")
        monkeypatch.setitem(sys.modules, name, None)
        assert not mod.has_mod(name)
        with pytest.raises(MissingDependencyError, match="is required but not installed"):
            _ = mod.lazy_import(name).value

    def test_a_mere_folder_is_not_a_module(self, site: Path) -> None:
        (site / f"{_PREFIX}models").mkdir()
        assert not mod.has_mod(_PREFIX + "models")
        with pytest.raises(MissingDependencyError, match="is required but not installed"):
            _ = mod.lazy_import(_PREFIX + "models").value

    def test_a_module_that_appears_later_is_noticed(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 100.0
        monkeypatch.setattr("time.monotonic", lambda: now)
        lazy = mod.lazy_import(_PREFIX + "a")
        assert not lazy.is_installed()
        write("a", "value = 3")
        now = 100.9
        assert not lazy.is_installed()
        now = 101.1
        assert lazy.is_installed()

    def test_importable(self, write: Write) -> None:
        assert mod.lazy_import(write("good")).is_importable()
        assert not mod.lazy_import(write("bad", "1 / 0")).is_importable()
        assert not mod.lazy_import(_PREFIX + "missing").is_importable()


class TestMissing:
    @pytest.mark.parametrize(
        ("module", "options", "command"),
        [
            ("missing", {}, "python -m pip install polygraphy_test_missing"),
            ("missing.sub>=1.2,<3", {}, "python -m pip install 'polygraphy_test_missing>=1.2,<3'"),
            ("missing>=2", {"pkg_name": "thing"}, "python -m pip install 'thing>=2'"),
            (
                "missing",
                {"install_flags": ["--pre"], "requires": ["torch>=2", "onnx"]},
                "python -m pip install --pre 'torch>=2' onnx polygraphy_test_missing",
            ),
            ("missing==latest", {}, "python -m pip install --upgrade polygraphy_test_missing"),
        ],
    )
    def test_names_the_command_that_installs_it(
        self, module: str, options: dict[str, object], command: str
    ) -> None:
        lazy = mod.lazy_import(_PREFIX + module, **options)  # type: ignore[arg-type]
        with pytest.raises(MissingDependencyError) as raised:
            _ = lazy.value
        name = (_PREFIX + module).partition(">")[0].partition("=")[0]
        assert str(raised.value) == (
            f"{name} is required but not installed. Install it with: {command}"
        )
        assert raised.value.module == name
        assert raised.value.install == command

    @pytest.mark.parametrize(
        ("module", "packages"),
        [
            ("onnxruntime>=1.14", "onnxruntime"),
            ("onnxruntime>=1.14,<1.20", "'onnxruntime>=1.14,<1.20'"),
            ("tensorrt>=8.5", "tensorrt cuda-python"),
            ("tensorrt_rtx>=1.0", "tensorrt-rtx cuda-python"),
            ("tensorflow", "tensorflow"),
            ("torch.nn", "torch"),
            ("matplotlib.pyplot", "matplotlib"),
            ("cuda", "cuda-python"),
            ("lpips>=0.1.4", "lpips torch torchvision"),
            ("torchvision", "torchvision"),
            ("onnx_graphsurgeon.logger", "onnx-graphsurgeon"),
            ("yaml", "pyyaml"),
            ("sympy", "sympy"),
            ("tf2onnx>=1.16", "tf2onnx"),
        ],
    )
    def test_names_the_packages_of_a_backend_themselves(
        self, module: str, packages: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = module.partition(">")[0]
        monkeypatch.setitem(sys.modules, name.partition(".")[0], None)
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingDependencyError) as raised:
            _ = mod.lazy_import(module).value
        assert str(raised.value) == (
            f"{name} is required but not installed. "
            f"Install it with: python -m pip install {packages}"
        )

    def test_the_packages_that_are_named_are_those_of_the_extras(self) -> None:
        declared = ConfigParser()
        declared.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
        extras = "\n".join(declared["options.extras_require"].values())
        for packages in dependency._PACKAGES.values():
            for package in packages:
                assert re.search(rf"^{package}>=", extras, re.MULTILINE), package

    def test_no_hint_names_an_extra_of_this_package(self) -> None:
        """On the registry, an extra of a package of this name is another project's."""
        root = Path(__file__).parents[2]
        sources = [*root.glob("polygraphy/**/*.py"), *root.glob("polygraphy/**/*.j2")]
        sources += [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]
        assert len(sources) > 100
        for path in sources:
            assert "polygraphy[" not in path.read_text(encoding="utf-8"), path

    def test_the_configured_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config, "INSTALL_CMD", ["uv", "pip", "install"])
        with pytest.raises(MissingDependencyError, match=r"with: uv pip install polygraphy_test_m"):
            _ = mod.lazy_import(_PREFIX + "m").value

    @pytest.mark.parametrize(
        ("source", "cause"),
        [
            ("raise OSError('libnvinfer.so.10: cannot open')", "OSError: libnvinfer.so.10: cannot"),
            ("import polygraphy_test_other", "ModuleNotFoundError: No module named 'polygraphy_te"),
            ("from os import nothing", "ImportError: cannot import name 'nothing'"),
        ],
    )
    def test_installed_but_broken(self, write: Write, source: str, cause: str) -> None:
        name = write("broken", source)
        with pytest.raises(MissingDependencyError) as raised:
            _ = mod.lazy_import(name).value
        assert str(raised.value).startswith(f"{name} is installed but cannot be imported: {cause}")
        assert "not installed" not in str(raised.value)
        assert raised.value.__cause__ is not None
        assert raised.value.install in str(raised.value)

    def test_the_class_is_looked_up_when_it_is_needed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class StandInError(ImportError):
            def __init__(self, message: str, *, module: str, install: str) -> None:
                super().__init__(message)

        stand_in = types.ModuleType("stand_in")
        stand_in.StandInError = StandInError  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "stand_in", stand_in)
        monkeypatch.setattr(
            "polygraphy.mod.dependency.MISSING_DEPENDENCY_ERROR", "stand_in:StandInError"
        )
        with pytest.raises(StandInError):
            _ = mod.lazy_import(_PREFIX + "missing").value


class TestWrongVersion:
    def test_warns_and_goes_on(self, write: Write, capsys: Capture) -> None:
        name = write("a", "__version__ = '1.0'; value = 3")
        assert mod.lazy_import(name + ">=2.0").value == 3
        assert capsys.readouterr().out == (
            f"[W] {name} 1.0 is installed, but >=2.0 is required. Errors may follow. "
            f"Install it with: python -m pip install '{name}>=2.0'\n"
        )

    def test_version_from_the_metadata(self, write: Write, capsys: Capture) -> None:
        name = write("a", "value = 3", metadata="1.0")
        assert mod.lazy_import(name + ">=0.9").value == 3
        assert capsys.readouterr().out == ""
        assert mod.lazy_import(name + ">=2.0").value == 3
        assert f"{name} 1.0 is installed" in capsys.readouterr().out

    def test_version_of_the_parent(self, write: Write, capsys: Capture) -> None:
        write("pack.__init__", "__version__ = '1.0'")
        name = write("pack.sub", "value = 3")
        assert mod.lazy_import(name + ">=2.0").value == 3
        assert f"{name} 1.0 is installed" in capsys.readouterr().out

    def test_an_unknown_version_will_do(self, write: Write, capsys: Capture) -> None:
        assert mod.lazy_import(write("a", "value = 3") + ">=2.0").value == 3
        assert capsys.readouterr().out == ""


class TestAutomaticInstallation:
    """With an installer that writes its arguments down, and modules into the folder."""

    @pytest.fixture
    def installed(self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Return the file with the arguments of all calls of the installer."""
        record = tmp_path / "record"
        record.write_text("")
        installer = tmp_path / "installer.py"
        installer.write_text(
            "import os, pathlib, sys\n"
            f"pathlib.Path({str(record)!r}).open('a').write(' '.join(sys.argv[1:]) + '\\n')\n"
            f"path = pathlib.Path({str(site)!r}, {_PREFIX!r} + 'a.py')\n"
            "before = path.parent.stat()\n"
            "path.write_text(\"__version__ = '2.0'; value = 'installed'\")\n"
            # Nobody can tell from the folder's time that there is something new.
            "os.utime(path.parent, ns=(before.st_atime_ns, before.st_mtime_ns))\n"
        )
        monkeypatch.setattr(config, "AUTOINSTALL_DEPS", True)
        monkeypatch.setattr(config, "INSTALL_CMD", [sys.executable, str(installer)])
        return record

    def test_installs_what_is_missing(self, installed: Path, capsys: Capture) -> None:
        lazy = mod.lazy_import(
            _PREFIX + "a>=1", pkg_name="pkg", install_flags=["--pre"], requires=["other>=3"]
        )
        assert not lazy.is_installed()
        assert lazy.value == "installed"
        assert installed.read_text() == "--pre other>=3 pkg>=1\n"
        assert capsys.readouterr().out.startswith(f"[I] Installing {_PREFIX}a: python ")

    def test_leaves_what_will_do(self, write: Write, installed: Path) -> None:
        write("a", "__version__ = '1.5'; value = 'old'", metadata="1.5")
        assert mod.lazy_import(_PREFIX + "a>=1").value == "old"
        assert mod.lazy_import(_PREFIX + "a").value == "old"
        assert installed.read_text() == ""

    def test_installs_anew_what_is_too_old(self, write: Write, installed: Path) -> None:
        write("a", "value = 'old'", metadata="1.0")
        assert mod.lazy_import(_PREFIX + "a>=2").value == "installed"
        assert installed.read_text() == f"{_PREFIX}a>=2\n"

    def test_also_if_only_the_module_tells_its_version(
        self, write: Write, installed: Path, capsys: Capture
    ) -> None:
        write("a", "__version__ = '1.0'; value = 'old'")
        assert mod.lazy_import(_PREFIX + "a>=2").value == "installed"
        assert installed.read_text() == f"{_PREFIX}a>=2\n"
        assert "[W]" not in capsys.readouterr().out

    def test_a_loaded_module_stays(self, write: Write, installed: Path, capsys: Capture) -> None:
        write("a", "__version__ = '1.0'; value = 'old'")
        assert mod.lazy_import(_PREFIX + "a").value == "old"
        assert mod.lazy_import(_PREFIX + "a>=2").value == "old"
        assert installed.read_text() == f"{_PREFIX}a>=2\n"
        assert f"{_PREFIX}a 1.0 is installed, but >=2 is required" in capsys.readouterr().out

    def test_an_installed_version_that_still_will_not_do(
        self, write: Write, installed: Path, capsys: Capture
    ) -> None:
        write("a", "value = 'old'", metadata="1.0")
        assert mod.lazy_import(_PREFIX + "a>=3").value == "installed"
        assert installed.read_text() == f"{_PREFIX}a>=3\n"
        assert f"{_PREFIX}a 2.0 is installed, but >=3 is required" in capsys.readouterr().out

    def test_the_latest_version(self, write: Write, installed: Path) -> None:
        write("a", "value = 'old'")
        assert mod.lazy_import(_PREFIX + "a" + mod.LATEST_VERSION).value == "installed"
        assert installed.read_text() == f"--upgrade {_PREFIX}a\n"

    def test_autoinstall(self, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lazy = mod.lazy_import(_PREFIX + "a")
        monkeypatch.setattr(config, "AUTOINSTALL_DEPS", False)
        mod.autoinstall(lazy)
        assert installed.read_text() == ""
        monkeypatch.setattr(config, "AUTOINSTALL_DEPS", True)
        mod.autoinstall(lazy)
        assert installed.read_text() == f"{_PREFIX}a\n"
        assert _PREFIX + "a" not in sys.modules
        assert lazy.is_installed()

    @pytest.mark.parametrize(
        ("answer", "agrees"),
        [("\n", True), ("y\n", True), (" YES \n", True), ("n\n", False), ("", False)],
    )
    def test_asks_if_configured_so(
        self,
        installed: Path,
        monkeypatch: pytest.MonkeyPatch,
        answer: str,
        agrees: bool,
        capsys: Capture,
    ) -> None:
        monkeypatch.setattr(config, "ASK_BEFORE_INSTALL", True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        lazy = mod.lazy_import(_PREFIX + "a")
        if agrees:
            assert lazy.value == "installed"
        else:
            with pytest.raises(MissingDependencyError, match="its installation was declined"):
                _ = lazy.value
        assert (installed.read_text() != "") is agrees
        assert f"{_PREFIX}a is required. Install it with `python " in capsys.readouterr().out

    def test_a_failure_shows_the_last_lines(
        self, installed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = "import sys; print('\\n'.join(map(str, range(20)))); sys.exit('no such thing')"
        monkeypatch.setattr(config, "INSTALL_CMD", [sys.executable, "-c", failing])
        with pytest.raises(MissingDependencyError) as raised:
            _ = mod.lazy_import(_PREFIX + "a").value
        first, *rest = str(raised.value).splitlines()
        assert first.startswith(f"{_PREFIX}a is required and could not be installed. python -c ")
        assert first.endswith("ended with exit status 1:")
        assert len(rest) == 5
        assert rest[-1] == "no such thing" or "no such thing" in rest

    def test_an_installer_that_does_not_exist(
        self, installed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(config, "INSTALL_CMD", ["/nowhere/pip"])
        with pytest.raises(MissingDependencyError, match=r"exit status 127:\n.*No such file"):
            _ = mod.lazy_import(_PREFIX + "a").value

    def test_an_installer_that_installs_something_else(
        self, installed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(MissingDependencyError, match="is required but not installed"):
            _ = mod.lazy_import(_PREFIX + "b").value

    def test_threads_install_once(self, installed: Path) -> None:
        lazy = mod.lazy_import(_PREFIX + "a")
        threads = [threading.Thread(target=lambda: lazy.value) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert installed.read_text() == f"{_PREFIX}a\n"


class TestPublicNames:
    def test_every_name_is_there(self) -> None:
        for name in mod.__all__:
            assert getattr(mod, name) is not None
        assert set(mod.__all__) <= set(dir(mod))

    def test_no_other(self) -> None:
        with pytest.raises(AttributeError, match=r"'polygraphy.mod' has no attribute 'nothing'"):
            _ = mod.nothing  # type: ignore[attr-defined]


def test_importing_the_ground_floor_imports_nothing_that_takes_long() -> None:
    heavy = {
        *("argparse", "ast", "attrs", "collections", "contextlib", "copy", "dataclasses", "enum"),
        *("functools", "importlib.metadata", "importlib.util", "inspect", "json", "logging"),
        *("numpy", "operator", "pathlib", "re", "shutil", "subprocess", "tempfile", "textwrap"),
        *("threading", "traceback", "types", "typing"),
    }
    script = (
        "import polygraphy.config, polygraphy.constants, polygraphy.func, polygraphy.logger, sys\n"
        "from polygraphy import mod\n"
        "mod.lazy_import('numpy'); mod.export; mod.deprecate; mod.version\n"
        f"print(*{heavy!r} & set(sys.modules))\n"
    )
    # Isolated (-I -S), because `site` may import anything.
    root = str(Path(config.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({root!r})\n{script}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found == []
