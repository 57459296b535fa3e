"""Scripts that users have, run unchanged on a real GPU.

POLYGRAPHY_USER_SCRIPTS names the folder that they are in.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from tests.support import dynamic_batch_files, identity_files

FOLDER = Path(os.environ.get("POLYGRAPHY_USER_SCRIPTS", "there-is-none"))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the users' scripts are not here"),
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

SCRIPTS = ("S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S09", "S10")
FRAGMENTS = ("N01", "N02", "N03", "N04", "N07", "N11")

FIRST = {"S02": "S01", "S09": "S08"}
"""Scripts that load the engine of another one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scripts")
    identity_files.build(made)
    dynamic_batch_files.build(made)
    shutil.copy(made / "identity.onnx", made / "model.onnx")
    return made


@pytest.mark.parametrize("name", [*SCRIPTS, *FRAGMENTS])
def test_a_script_runs_as_it_is(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for each in filter(None, (FIRST.get(name), name)):
        [path] = FOLDER.glob(f"{each}_*.py")
        monkeypatch.setattr(sys, "argv", [str(path)])
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert "[E]" not in said
