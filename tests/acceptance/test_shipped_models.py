"""The checks of `make models`, on a small model with the traits of those that other people ship."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import onnx
import pytest

from tests.support.forked import ForkServer
from tests.support.shipped import DATA, shipped

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CHECKS = (
    "inspect",
    "lint",
    "default data",
    "backends",
    "levels",
    "mark all",
    "fold",
    "fp16",
    "two backends",
    "openvino",
    "openvino fp16",
    "openvino dynamic",
    "openvino qdq",
    "three backends",
    "itself",
    "tensors",
    "strip",
    "halves",
    "reduce",
)


@pytest.fixture(scope="module")
def program(fork_server: ForkServer) -> Iterator[ModuleType]:
    """Return the program, whose commands run in forks."""

    def run(line: list[str], *, check: bool, **options: Any) -> subprocess.CompletedProcess[str]:
        if line[1:3] != ["-m", "polygraphy"]:
            return subprocess.run(line, check=check, **options)
        ended = fork_server.run(line[2:], options["cwd"])
        return subprocess.CompletedProcess(line, ended.code, ended.out, ended.err)

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        found = import_module("real_models")
        patch.setattr(
            found,
            "subprocess",
            SimpleNamespace(
                run=run,
                CompletedProcess=subprocess.CompletedProcess,
                TimeoutExpired=subprocess.TimeoutExpired,
            ),
        )
        yield found
    sys.modules.pop("real_models", None)


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_passes(program: ModuleType, tmp_path: Path, check: str) -> None:
    path = tmp_path / "shipped.onnx"
    onnx.save(shipped(), path)
    program.CHECKS[check](program.Trial(path, DATA, tmp_path))


def test_every_check_is_here(program: ModuleType) -> None:
    assert tuple(program.CHECKS) == CHECKS


def test_a_check_fails_where_a_command_does(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(program.Failed, match=r"`polygraphy inspect model .*exit code 3: \[!\]"):
        program.CHECKS["inspect"](program.Trial(tmp_path / "text.onnx", (), tmp_path))


def test_the_page_says_what_failed(program: ModuleType) -> None:
    found = [("a.onnx", "fold", 1.25, None), ("a.onnx", "fp16", 2.0, "`polygraphy x`: exit code 1")]
    page = program.markdown(found, {"package": "1.0"})
    assert "packages: package 1.0." in page
    assert page.count("| a.onnx |") == 1
    assert "1.2 | **(1)** |" in page
    assert page.endswith("1. a.onnx, fp16: `polygraphy x`: exit code 1\n")
