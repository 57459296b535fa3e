from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from polygraphy.adapters.files.formats.blobs import blob_writer, holds_blobs, iterate_blobs
from polygraphy.domain.data.loading import StreamingDataLoader
from polygraphy.domain.errors import FileError, InputError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata


def write(folder: Path, *feeds: dict[str, Any]) -> None:
    with blob_writer(folder) as writer:
        for feed in feeds:
            writer.add(feed)


def test_each_iteration_has_a_folder_and_each_input_a_file(tmp_path: Path) -> None:
    feeds: list[Any] = [{"x": np.full(3, i, np.int16), "a/b": np.zeros(1)} for i in range(2)]
    write(tmp_path, *feeds)
    assert (tmp_path / "0000000001" / "x.bin").read_bytes() == feeds[1]["x"].tobytes()
    assert (tmp_path / "0000000001" / "a" / "b.bin").stat().st_size == 8
    assert holds_blobs(tmp_path)
    found = list(iterate_blobs(tmp_path))
    assert [sorted(feed) for feed in found] == [["a/b", "x"]] * 2
    assert found[1]["x"] == feeds[1]["x"].tobytes()


@pytest.mark.parametrize("name", ["../x", "../../x", "/etc/x", "a/../../x"])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="points outside"):
        write(tmp_path / "in", {name: np.zeros(1)})
    assert not list(tmp_path.rglob("*.bin"))


def test_files_of_an_earlier_run_are_not_read_with_those_of_this_one(tmp_path: Path) -> None:
    write(tmp_path, *[{"x": np.zeros(1), "old": np.zeros(1)}] * 3)
    (tmp_path / "0000000002" / "notes.txt").write_text("kept")
    write(tmp_path, {"x": np.ones(1), "a/../b": np.ones(1)})
    assert [*map(sorted, iterate_blobs(tmp_path / "0000000000"))] == [["b", "x"]]
    assert [entry.name for entry in (tmp_path / "0000000002").iterdir()] == ["notes.txt"]
    assert not (tmp_path / "0000000001").exists()


def test_memory_layout_does_not_matter(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    write(tmp_path, {"x": array.T})
    assert (tmp_path / "0000000000" / "x.bin").read_bytes() == array.T.copy().tobytes()


def test_single_files_and_folders_of_files_are_one_iteration(tmp_path: Path) -> None:
    (tmp_path / "x.raw").write_bytes(b"\x01\x02")
    (tmp_path / "y.bin").write_bytes(b"\x03")
    assert list(iterate_blobs(tmp_path)) == [{"x": b"\x01\x02", "y": b"\x03"}]
    assert holds_blobs("some.RAW")
    assert list(iterate_blobs(tmp_path / "x.raw")) == [{"x": b"\x01\x02"}]
    with pytest.raises(FileError, match="does not exist"):
        list(iterate_blobs(tmp_path / "missing.bin"))
    (tmp_path / "other").mkdir()
    assert not holds_blobs(tmp_path / "other")
    assert not holds_blobs("inputs.json")


def test_the_loader_takes_types_and_shapes_from_the_model(tmp_path: Path) -> None:
    write(tmp_path / "blobs", {"x": np.arange(4, dtype=np.float16)})
    (tmp_path / "x.bin").write_bytes(np.ones(4, np.float16).tobytes())
    loader = StreamingDataLoader([tmp_path / "blobs", tmp_path / "x.bin"])
    with pytest.raises(UsageError, match="without data types and shapes"):
        next(iter(loader))
    loader.input_metadata = TensorMetadata().add("x", DataType.FLOAT16, [2, "n"])
    feeds = list(loader)
    assert [feed["x"].tolist() for feed in feeds] == [[[0, 1], [2, 3]], [[1, 1], [1, 1]]]


def save_tensor(path: Path, array: Any, name: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(numpy_helper.from_array(np.asarray(array), name).SerializeToString())


def test_data_sets_of_the_onnx_project(tmp_path: Path) -> None:
    for index in (0, 2, 10):
        folder = tmp_path / f"test_data_set_{index}"
        for place in range(11):
            save_tensor(folder / f"input_{place}.pb", [index, place], "x" if place == 1 else "")
        save_tensor(folder / "output_0.pb", [0])
    feeds = list(StreamingDataLoader(str(tmp_path)))
    assert [feed["x"].tolist() for feed in feeds] == [[0, 1], [2, 1], [10, 1]]
    assert list(feeds[0])[2:] == [f"input_{place}" for place in range(2, 11)]
    [one] = StreamingDataLoader(str(tmp_path / "test_data_set_2"))
    assert one["x"].tolist() == [2, 1]


@pytest.mark.parametrize("content", [b"junk", onnx.SequenceProto(name="s").SerializeToString()])
def test_other_protobuf_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "input_0.pb").write_bytes(content)
    with pytest.raises(FileError, match="it is not an ONNX tensor"):
        list(StreamingDataLoader(str(tmp_path)))


def test_the_file_is_named_whose_bytes_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(8))
    loader = StreamingDataLoader(tmp_path / "x.bin")
    loader.input_metadata = TensorMetadata().add("x", np.float32, (3,))
    with pytest.raises(InputError, match=r"x\.bin: Input 'x' .* does not fit 2 elements"):
        list(loader)
