"""Symbols out of scripts."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from polygraphy.exception import FileError, PolygraphyException, UnknownNameError
from polygraphy.mod import import_from_script
from polygraphy.mod.scripts import run_script


@pytest.fixture(autouse=True)
def _no_trace() -> Iterator[None]:
    """Check that nothing but the scripts themselves differs from before."""
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    yield
    assert sys.path == path
    assert sys.meta_path == finders
    added = {name for name in set(sys.modules) - modules if "polygraphy_script_" not in name}
    assert not [name for name in added if name.partition(".")[0] in {"helper", "pack", "other"}]


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


class TestWhatItReturns:
    def test_functions_classes_and_values(self, tmp_path: Path) -> None:
        script = write(
            tmp_path / "s.py",
            "def load(): return __file__\nclass Thing: pass\nvalue = [1]\n",
        )
        assert import_from_script(script, "load")() == str(script)
        assert isinstance(import_from_script(str(script), "Thing"), type)
        assert import_from_script(script, "value") == [1]

    def test_a_relative_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "s.py", "value = 1")
        monkeypatch.chdir(tmp_path)
        assert import_from_script("s.py", "value") == 1

    def test_any_file_name(self, tmp_path: Path) -> None:
        assert import_from_script(write(tmp_path / "my script-2", "value = 1"), "value") == 1

    def test_a_name_that_the_module_makes_up(self, tmp_path: Path) -> None:
        script = write(tmp_path / "s.py", "def __getattr__(name): return name.upper()")
        assert import_from_script(script, "value") == "VALUE"

    def test_it_is_not_the_main_program(self, tmp_path: Path) -> None:
        script = write(tmp_path / "s.py", "main = __name__ == '__main__'")
        assert import_from_script(script, "main") is False

    def test_source_encoding(self, tmp_path: Path) -> None:
        script = tmp_path / "s.py"
        script.write_bytes(b"# -*- coding: latin-1 -*-\nvalue = '\xe9'\n")
        assert import_from_script(script, "value") == "\u00e9"

    def test_runs_anew_each_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        script = write(tmp_path / "s.py", "value = [1]")
        first = import_from_script(script, "value")
        stat = script.stat()
        script.write_text("value = [2]")
        os.utime(script, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert import_from_script(script, "value") == [2]
        assert first == [1]
        assert not (tmp_path / "__pycache__").exists()

    def test_data_classes_and_type_hints_work(self, tmp_path: Path) -> None:
        script = write(
            tmp_path / "s.py",
            "from __future__ import annotations\nimport dataclasses\n"
            "@dataclasses.dataclass\nclass Point:\n    x: Number\nNumber = int\n",
        )
        point = import_from_script(script, "Point")
        assert dataclasses.asdict(point(3)) == {"x": 3}
        assert typing.get_type_hints(point) == {"x": int}

    def test_all_its_names_at_once(self, tmp_path: Path) -> None:
        assert import_from_script(write(tmp_path / "s.py", "value = 1"), "__dict__")["value"] == 1
        wrong = write(tmp_path / "wrong.py", "1 +")
        with pytest.raises(PolygraphyException, match=r"Could not run the script .*wrong\.py"):
            import_from_script(wrong, "__dict__")


class TestItsOwnFolder:
    def test_it_may_import_what_lies_beside_it(self, tmp_path: Path) -> None:
        write(tmp_path / "helper.py", "value = 1")
        write(tmp_path / "pack" / "__init__.py", "from .sub import value")
        write(tmp_path / "pack" / "sub.py", "value = 2")
        write(tmp_path / "other" / "plain.py", "value = 3")
        script = write(
            tmp_path / "s.py",
            "import helper, pack\nfrom other.plain import value\n"
            "values = [helper.value, pack.value, value]\n"
            "def again(): return helper.value\n",
        )
        assert import_from_script(script, "values") == [1, 2, 3]
        assert import_from_script(script, "again")() == 1
        assert "helper" not in sys.modules

    def test_it_finds_what_was_written_a_moment_ago(self, tmp_path: Path) -> None:
        script = write(tmp_path / "s.py", "import helper")
        before = tmp_path.stat()
        with pytest.raises(PolygraphyException):
            import_from_script(script, "helper")
        write(tmp_path / "helper.py", "")
        os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert import_from_script(script, "helper").__name__ == "helper"

    def test_scripts_of_the_same_name_do_not_shadow_each_other(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            write(tmp_path / name / "helper.py", f"value = {name!r}")
            write(
                tmp_path / name / "s.py",
                "import helper\ndef load(): return helper.value, __file__\n",
            )
        first = import_from_script(tmp_path / "a" / "s.py", "load")
        second = import_from_script(tmp_path / "b" / "s.py", "load")
        assert first() == ("a", str(tmp_path / "a" / "s.py"))
        assert second() == ("b", str(tmp_path / "b" / "s.py"))

    def test_a_script_that_imports_from_a_script(self, tmp_path: Path) -> None:
        write(tmp_path / "a" / "helper.py", "value = 'a'")
        write(tmp_path / "b" / "helper.py", "value = 'b'")
        write(tmp_path / "b" / "s.py", "import helper\nvalue = helper.value")
        write(tmp_path / "c" / "s.py", "import helper")
        write(
            tmp_path / "a" / "s.py",
            "import helper\nfrom polygraphy.mod import import_from_script\n"
            "inner = import_from_script('../b/s.py', 'value')\n"
            "try:\n    import_from_script('../c/s.py', 'value')\n"
            "except Exception as error:\n    failure = str(error)\n"
            "import helper as again\nvalues = [helper.value, inner, again.value, failure]\n",
        )
        old = Path.cwd()
        os.chdir(tmp_path / "a")
        try:
            *values, failure = import_from_script("s.py", "values")
        finally:
            os.chdir(old)
        assert values == ["a", "b", "a"]
        assert "No module named 'helper'" in failure

    def test_modules_of_the_process_stay(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "mine" / "helper.py", "value = 'mine'")
        write(tmp_path / "theirs" / "helper.py", "value = 'theirs'")
        script = write(tmp_path / "theirs" / "s.py", "import helper\nvalue = helper.value")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / "mine")
            import helper  # type: ignore[import-not-found]

            assert import_from_script(script, "value") == "theirs"
            assert sys.modules["helper"] is helper
            assert helper.value == "mine"
            del sys.modules["helper"]

    def test_installed_packages_stay_in_use(self, tmp_path: Path) -> None:
        import numpy

        write(tmp_path / "numpy" / "__init__.py", "raise ValueError")
        write(tmp_path / "json.py", "raise ValueError")
        write(tmp_path / "polygraphy" / "__init__.py", "raise ValueError")
        script = write(
            tmp_path / "s.py",
            "import numpy, json, polygraphy\nmodules = [numpy, json, polygraphy]",
        )
        import json

        import polygraphy

        assert import_from_script(script, "modules") == [numpy, json, polygraphy]

    def test_a_folder_of_data_is_no_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "site" / "other.py", "value = 'module'")
        write(tmp_path / "user" / "other" / "data.txt", "")
        script = write(tmp_path / "user" / "s.py", "import other\nvalue = other.value")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / "site")
            assert import_from_script(script, "value") == "module"
            del sys.modules["other"]

    def test_a_folder_that_the_process_imports_from_is_shared(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "helper.py", "value = []")
        script = write(tmp_path / "s.py", "import helper\nvalue = helper.value")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path)
            value = import_from_script(script, "value")
            import helper

            assert helper.value is value
            assert import_from_script(script, "value") is value
            del sys.modules["helper"]

    def test_other_threads_do_not_find_it(self, tmp_path: Path) -> None:
        write(tmp_path / "helper.py", "")
        script = write(
            tmp_path / "s.py",
            "import threading\nfound = []\n"
            "def look():\n    try:\n        import helper\n    except ImportError as error:\n"
            "        found.append(str(error))\n"
            "thread = threading.Thread(target=look)\nthread.start()\nthread.join()\n"
            "import helper\n",
        )
        assert import_from_script(script, "found") == ["No module named 'helper'"]

    def test_threads(self, tmp_path: Path) -> None:
        for i in range(8):
            write(tmp_path / str(i) / "helper.py", f"import time\ntime.sleep(0.01)\nvalue = {i}")
            write(tmp_path / str(i) / "s.py", "import helper\nvalue = helper.value")
        values: dict[int, int] = {}

        def load(i: int) -> None:
            values[i] = import_from_script(tmp_path / str(i) / "s.py", "value")

        threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert values == {i: i for i in range(8)}


class TestErrors:
    def test_no_such_script(self, tmp_path: Path) -> None:
        with pytest.raises(FileError) as raised:
            import_from_script(tmp_path / "s.py", "load")
        path = str(tmp_path / "s.py")
        assert str(raised.value) == f"Could not import 'load': the script {path} does not exist."
        assert str(raised.value.path) == path

    def test_a_folder_is_no_script(self, tmp_path: Path) -> None:
        with pytest.raises(FileError):
            import_from_script(tmp_path, "load")

    def test_no_such_name(self, tmp_path: Path) -> None:
        script = write(tmp_path / "s.py", "import os\ndef load_data(): pass\n_hidden = other = 1\n")
        with pytest.raises(UnknownNameError) as raised:
            import_from_script(script, "load_dta")
        message = str(raised.value)
        assert str(script) in message
        assert "'load_dta' does not exist" in message
        assert "Did you mean 'load_data'?" in message
        assert raised.value.known == ("load_data", "other")

    @pytest.mark.parametrize(
        ("source", "line", "error"),
        [
            ("x = 1\n\nraise ValueError('boo')\n", 3, "ValueError: boo"),
            ("def f():\n    return 1 // 0\n\nf()\n", 2, "ZeroDivisionError: "),
            ("x = 1\n\ndef (:\n", 3, "SyntaxError: "),
            ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
            ("\n\nimport helper\n", 3, "ModuleNotFoundError: No module named 'helper'"),
        ],
    )
    def test_an_exception_in_the_script(
        self, tmp_path: Path, source: str, line: int, error: str
    ) -> None:
        script = write(tmp_path / "s.py", source)
        with pytest.raises(PolygraphyException) as raised:
            import_from_script(script, "load")
        assert str(raised.value).startswith(
            f"Could not import 'load' from the script {script}:\nline {line}: {error}"
        )
        assert type(raised.value.__cause__).__name__ == error.partition(":")[0]

    def test_an_error_beside_the_script(self, tmp_path: Path) -> None:
        write(tmp_path / "helper.py", "\n\n\n\n(")
        script = write(tmp_path / "s.py", "\nimport helper")
        with pytest.raises(PolygraphyException, match=r"line 2: SyntaxError: .*helper\.py, line 5"):
            import_from_script(script, "load")

    def test_an_interrupt_is_not_an_error_of_the_script(self, tmp_path: Path) -> None:
        script = write(tmp_path / "s.py", "raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            import_from_script(script, "load")

    def test_a_failed_script_leaves_nothing(self, tmp_path: Path) -> None:
        before = set(sys.modules)
        script = write(tmp_path / "unique_name.py", "1 / 0")
        with pytest.raises(PolygraphyException):
            import_from_script(script, "load")
        assert not [name for name in set(sys.modules) - before if "unique_name" in name]


def test_a_program_that_is_run_as_a_script(tmp_path: Path) -> None:
    """The program's own folder is on `sys.path`; its modules are shared with it."""
    write(tmp_path / "helper.py", "value = []")
    write(tmp_path / "loader.py", "import helper\nvalue = helper.value")
    root = Path(__file__).parents[2]
    main = write(
        tmp_path / "main.py",
        f"import sys\nsys.path.append({str(root)!r})\nimport helper\n"
        "from polygraphy.mod import import_from_script\n"
        "assert import_from_script('loader.py', 'value') is helper.value\nprint('shared')\n",
    )
    done = subprocess.run(
        [sys.executable, str(main)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("shared\n", "")


def test_a_script_that_is_run_for_what_it_does(tmp_path: Path) -> None:
    done = write(
        tmp_path / "a.py",
        "x = 3\nopen('done', 'w').close()".replace("done", str(tmp_path / "done")),
    )
    assert run_script(done).x == 3
    assert (tmp_path / "done").exists()
    bad = write(tmp_path / "bad.py", "x = 1\ndef f(a b):\n    pass\n")
    with pytest.raises(PolygraphyException, match=r"Could not run the script .*bad\.py:\nline 2: "):
        run_script(bad)
    with pytest.raises(FileError, match=r"The script .*gone\.py does not exist"):
        run_script(tmp_path / "gone.py")
