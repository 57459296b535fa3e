"""A model and its weights are replaced together, whenever the process is killed
or a step fails; what killed processes leave is removed by the next one.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.os import paths as parts
from polygraphy.adapters.os.paths import atomic_file, stage_file
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.comparator import RunResults
from polygraphy.domain.errors import FileError
from tests.support import models
from tests.support.examples import spread

STEPS = [(Path, "replace"), (Path, "unlink"), (os, "link"), (os, "fsync")]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork")


def model(value: float, dtype: Any = np.float32) -> onnx.ModelProto:
    names = [f"w{index}" for index in range(4)]
    nodes = [onnx.helper.make_node("Sum", ["x", *names], ["y"])]
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    io = [models.value(name, [500], kind) for name in "xy"]
    sizes = dict(zip(names, (500, 1, 500, 1)))  # Large ones go out, small ones stay.
    weights = {name: np.full(size, value, dtype) for name, size in sizes.items()}
    return models.make("pair", nodes, io[:1], io[1:], weights=weights)


def save(value: float, path: Path, *, one_file: bool = True, dtype: Any = np.float32) -> None:
    save_onnx(
        model(value, dtype),
        str(path),
        external_data_path="m.onnx.data",
        size_threshold=100,
        all_tensors_to_one_file=one_file,
    )


def test_two_programs_do_not_replace_a_model_at_once(tmp_path: Path) -> None:
    save(1, path := tmp_path / "m.onnx")
    saving = threading.Thread(target=save, args=(2, path))
    with parts.lock_folder(tmp_path):
        saving.start()
        saving.join(0.2)
        assert values(path) == {1}
    saving.join()
    assert values(path) == {2}


def values(path: Path) -> set[float]:
    """Return the values of all weights, which are those of one model or those of another."""
    try:
        loaded = onnx.load(str(path))
    except onnx.checker.ValidationError as error:
        assert "multiple hard links" in str(error)
        loaded = onnx_from_path(str(path))
    onnx.checker.check_model(loaded)
    arrays = [onnx.numpy_helper.to_array(tensor) for tensor in loaded.graph.initializer]
    return {float(element) for array in arrays for element in array.flat}


def at_step(wanted: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Act before a step that changes files; return the list of how many there were."""
    count = [0]

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] == wanted:
                act()
            return call(*args, **kwargs)

        return run

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    return count


def fails() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupts() -> None:
    raise KeyboardInterrupt


def is_killed() -> None:
    os._exit(9)


@forks
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("one_file", [True, False])
@pytest.mark.parametrize("dtype", spread([np.float32, np.float16], 1))
def test_killed_at_any_step_the_old_pair_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_file: bool, dtype: Any, links: bool
) -> None:
    if links:  # There is no room for a copy, and readers other than ours refuse links.
        monkeypatch.setattr(shutil, "copyfileobj", lambda *_: fails())
    seen, step, ended = set(), 0, False
    while not ended:
        step += 1
        path = tmp_path / f"{step}" / "m.onnx"
        save(1, path, one_file=one_file)
        pid = os.fork()
        if pid == 0:
            with pytest.MonkeyPatch.context() as patch:
                at_step(step, is_killed, patch)
                save(2, path, one_file=one_file, dtype=dtype)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        found = values(path)
        assert found in ({1.0}, {2.0}), f"killed before step {step}: {found}"
        seen |= found
        save(3, path, one_file=one_file)
        assert values(path) == {3.0}
        left = {file.name for file in path.parent.iterdir()}
        expected = [""] if one_file else [".w0", ".w2"]
        assert left == {"m.onnx", *(f"m.onnx.data{end}" for end in expected)}
    assert seen == {1.0, 2.0} and step > 5


@pytest.mark.parametrize("act", [fails, interrupts])
def test_after_an_error_the_old_pair_or_the_new_one_is_there(
    tmp_path: Path, act: Callable[[], None]
) -> None:
    step, ended = 0, False
    while not ended:
        step += 1
        path = tmp_path / f"{step}" / "m.onnx"
        save(1, path)
        with pytest.MonkeyPatch.context() as patch:
            at_step(step, act, patch)
            try:
                save(2, path)
                ended = not any(path.parent.glob("*.new"))
            except (FileError, KeyboardInterrupt):
                pass
        assert values(path) in ({1.0}, {2.0})
        save(3, path)
        assert values(path) == {3.0}
        assert {file.name for file in path.parent.iterdir()} == {"m.onnx", "m.onnx.data"}
        ended = ended and step > 12


def test_ctrl_c_between_two_renames_comes_after_the_last(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save(1, path)
    pressed = []

    def press() -> None:
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)

    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        press()
        return real(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            save(2, path)
    assert len(pressed) == 3  # The model that names the second name, the weights, the model.
    assert values(path) == {2.0}
    assert {file.name for file in tmp_path.iterdir()} == {"m.onnx", "m.onnx.data"}


WRITER = """
import sys
from pathlib import Path
from polygraphy.adapters.os.paths import atomic_file
with atomic_file(sys.argv[1]) as stream:
    stream.write(b"x" * 1000)
    stream.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not parts.STAYS_OPEN, reason="takes locks")
def test_parts_of_dead_processes_go_and_those_of_living_ones_stay(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out.json"
    others = [tmp_path / ".out.json.abc.part", tmp_path / ".other.json.abcdefgh.part"]
    for other in others:
        other.touch()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None and writer.stdin is not None
    writer.stdout.readline()
    [part] = [file for file in tmp_path.iterdir() if file not in others]
    with atomic_file(path) as stream:
        stream.write(b"mine")
    assert part.exists()
    writer.kill()
    writer.wait()
    with atomic_file(path) as stream:
        stream.write(b"mine")
    assert set(tmp_path.iterdir()) == {path, *others}
    assert path.read_bytes() == b"mine"


@pytest.mark.skipif(not parts.STAYS_OPEN, reason="takes locks")
def test_folders_of_results_under_way_of_dead_processes_go(tmp_path: Path) -> None:
    results = RunResults()
    results.add([{"y": np.ones(2)}])
    descriptor, folder = parts.create_temporary_folder(tmp_path / "r.safetensors")
    (folder / "0.safetensors").touch()
    results.save(str(tmp_path / "r.safetensors"))
    assert folder.exists()
    os.close(descriptor or 0)
    results.save(str(tmp_path / "r.safetensors"))
    assert [file.name for file in tmp_path.iterdir()] == ["r.safetensors"]


def test_what_is_not_placed_leaves_nothing(tmp_path: Path) -> None:
    with stage_file(tmp_path / "a") as staged:
        staged.stream.write(b"x")
        staged.finish()
    assert not list(tmp_path.iterdir())


@forks
def test_killed_at_any_time_every_file_is_whole(tmp_path: Path) -> None:
    """Real kills, at times that nobody chose."""
    path = tmp_path / "m.onnx"
    save(0, path)
    for turn in range(12):
        pid = os.fork()
        if pid == 0:
            for count in range(1_000):
                save(1000 * turn + count, path)
            os._exit(0)
        time.sleep(0.01 + 0.004 * turn)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert len(values(path)) == 1
    save(-1, path)
    assert {file.name for file in tmp_path.iterdir()} == {"m.onnx", "m.onnx.data"}
