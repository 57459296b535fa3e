"""Fixtures for every test: fresh copies of the groups of models and files."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from polygraphy import mod, termination
from polygraphy.logger import G_LOGGER
from tests.support import (
    classifier_files,
    dynamic_batch_files,
    dynamic_image_files,
    extra_packages,
    identity_files,
)
from tests.support.examples import spread_evenly
from tests.support.forked import ForkServer, Interpreter, import_everything
from tests.support.idle_threads import let_threads_sleep

if mod.has_mod("tensorflow") and mod.has_mod("triton"):
    import triton  # noqa: F401 - Where it comes after TensorFlow, the process ends.

_BUILDERS: dict[str, Callable[[Path], None]] = {
    "classifier": classifier_files.build,
    "identity": identity_files.build,
    "dynamic_image": dynamic_image_files.build,
    "dynamic_batch": dynamic_batch_files.build,
}

_CALIBRATION_EXAMPLE = Path("api") / "04_int8_calibration_in_tensorrt"

_CASES = {"quick": 3, "versions": 1}
"""How many cases of a parametrized test a profile runs; the others run all."""

_APART = pytest.StashKey[bool]()
"""Whether the tests are those that compute in OpenVINO."""

_INTERPRETER = pytest.StashKey[Interpreter]()
"""What forks for the commands of all tests."""

_MANY = 100
"""How many tests with commands make up for importing all that commands import."""

# A shell has commands that it starts in the background ignore ctrl-C, and all that they start. What it
# does is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where these are set pytest and others abridge, wrap, color or annotate otherwise, and pages show
# what they say where they are not.
for _name in (
    *("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"),
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS"),
):
    os.environ.pop(_name, None)

# The same examples every time, and no time limit for one of them. A profile scales also the numbers
# of `tests.support.examples.scaled`; pytest's --hypothesis-profile chooses another one.
for profile, examples in {"versions": 5, "quick": 5, "default": 10, "thorough": 100}.items():
    settings.register_profile(profile, max_examples=examples, derandomize=True, deadline=None)
settings.load_profile("default")

let_threads_sleep()


def pytest_configure(config: pytest.Config) -> None:
    """Let tests draw no constants of the product, unless all examples are run. Hypothesis would
    read every module in each process, and examples would depend on which modules it has imported.
    """
    if not _runs_thorough(config) and hasattr(providers, "is_local_module_file"):
        providers.is_local_module_file = lambda path: False


def pytest_report_header() -> str:
    """Say which packages there are besides those that every run of the tests has."""
    return f"extra packages: {extra_packages.installed()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use a package of the extra `test-all`, which `make test-all` runs, and
    those that compute in OpenVINO; leave out those with models above 2 GiB unless they are asked
    for, and those of OpenVINO among others: `tests/adapters/openvino/test_apart.py` runs them.
    """
    if "huge" not in str(config.getoption("markexpr")):
        _leave_out(config, items, lambda item: item.get_closest_marker("huge"))
    if not _runs_thorough(config):
        _leave_out(config, items, lambda item: item.get_closest_marker("thorough"))
    for item in items:
        if extra_packages.uses_extra(item):
            item.add_marker(extra_packages.MARKER)
    theirs = [item for item in items if extra_packages.computes_in_openvino(item)]
    for item in theirs:
        assert extra_packages.may_compute_in_openvino(item.path), f"{item.path} would be left out"
        item.add_marker(extra_packages.OPENVINO)
    asked = str(config.option.markexpr)
    is_apart = len(theirs) == len(items) or extra_packages.OPENVINO in asked or "huge" in asked
    config.stash[_APART] = is_apart
    if not is_apart:
        _leave_out(config, items, lambda item: item.get_closest_marker(extra_packages.OPENVINO))


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, Any]:
    """Create no items for the cases that `pytest_collection_modifyitems` would leave out: creating
    an item takes longer than collecting the test without it.
    """
    result = yield
    calls = metafunc._calls
    if not _runs_thorough(metafunc.config):
        kept = [call for call in calls if all(mark.name != "thorough" for mark in call.marks)]
        calls[:] = kept or calls[:1]
    if number := _CASES.get(str(metafunc.config.getoption("--hypothesis-profile"))):
        calls[:] = spread_evenly(calls, number)
    return result


def _runs_thorough(config: pytest.Config) -> bool:
    return "thorough" in (config.getoption("--hypothesis-profile"), str(config.option.markexpr))


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], is_left_out: Callable[[pytest.Item], object]
) -> None:
    left_out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if not is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the modules without a test that is asked for, before they are imported."""
    if not collection_path.match("test_*.py"):
        return None
    asked = str(config.option.markexpr)
    if asked == extra_packages.OPENVINO:
        return None if extra_packages.may_compute_in_openvino(collection_path) else True
    if asked.startswith(f"{extra_packages.MARKER} and"):
        return None if extra_packages.may_use_extra(collection_path) else True
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the garbage collector from test items, which live as long as the session: looking at
    them again and again takes a third of the time in which they are created.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)  # With 700, a twentieth of the time of the tests.
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start what forks for commands before the tests, if many need it: processes of tests share it."""
    names = [getattr(item, "fixturenames", ()) for item in session.items]
    if sum("fork_server" in some for some in names) >= _MANY:
        session.config.stash[_INTERPRETER] = Interpreter(imports_all=True)
        import_everything()  # On another processor than the interpreter.


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what forks for commands."""
    if _INTERPRETER in config.stash:
        config.stash[_INTERPRETER].close()


@pytest.fixture(autouse=True)
def _process_is_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the process of the tests as it was, in one fixture for thousands of short tests.

    The logger: a command that ran in it has set severities. Ctrl-C that a test sent to its own
    process: the next is not interrupted. A test that lets OpenVINO compile a model in the process
    from which others are forked fails: those would wait for its threads.
    """
    was_entered = _computed_in_openvino()
    with G_LOGGER.preserve():
        yield
    termination._interrupts.clear()
    if not (was_entered or request.config.stash[_APART]):
        said = "OpenVINO computed in this process: test_apart.py runs such tests"
        assert not _computed_in_openvino(), said


def _computed_in_openvino() -> bool:
    compiled = sys.modules.get("polygraphy.adapters.openvino.compiled")
    return compiled is not None and compiled.PROCESS.is_entered


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that no environment of ours would run."""
    report: Any = yield
    if report.skipped and extra_packages.lacks_marker(item, str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} needs pytest.mark.{extra_packages.MARKER}"
    return report


@pytest.fixture(scope="session")
def built_group(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds a group once and gives its folder, which is not to be used.

    Copy it: what one test writes there, every later test would see.
    """
    built: dict[str, Path] = {}

    def folder_of(group: str) -> Path:
        if group not in built:
            folder = tmp_path_factory.mktemp(group)
            _BUILDERS[group](folder)
            built[group] = folder
        return built[group]

    return folder_of


@pytest.fixture(scope="session")
def fork_server(pytestconfig: pytest.Config) -> Generator[ForkServer, None, None]:
    """Return what runs commands and programs without starting an interpreter for each."""
    if _INTERPRETER not in pytestconfig.stash:
        pytestconfig.stash[_INTERPRETER] = Interpreter()
    server = ForkServer(pytestconfig.stash[_INTERPRETER])
    yield server
    server.close()


@pytest.fixture
def plugin_registry() -> Generator[None, None, None]:
    """Leave the registry of plugin references as it was."""
    from polygraphy.backend.pluginref import OP_REGISTRY

    before = dict(OP_REGISTRY)
    yield
    OP_REGISTRY.clear()
    OP_REGISTRY.update(before)


@pytest.fixture
def classifier_dir(
    built_group: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Enter a fresh copy of the files of the classifier."""
    return _enter_copy(built_group("classifier"), tmp_path / "classifier", monkeypatch)


@pytest.fixture
def identity_dir(
    built_group: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Enter a fresh copy of the files of the static identity.

    ``../../../api/04_int8_calibration_in_tensorrt/example.py`` exists, seen from there.
    """
    identity_files.build_calibration_example(tmp_path / _CALIBRATION_EXAMPLE)
    return _enter_copy(
        built_group("identity"), tmp_path / "cli" / "convert" / "identity", monkeypatch
    )


@pytest.fixture
def dynamic_image_dir(
    built_group: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Enter a fresh copy of the files of the identity with a dynamic image size."""
    return _enter_copy(built_group("dynamic_image"), tmp_path / "dynamic_image", monkeypatch)


@pytest.fixture
def dynamic_batch_dir(
    built_group: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Enter a fresh copy of the files of the identity with a dynamic batch."""
    return _enter_copy(built_group("dynamic_batch"), tmp_path / "dynamic_batch", monkeypatch)


def _enter_copy(source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(source, destination)
    monkeypatch.chdir(destination)
    return destination
