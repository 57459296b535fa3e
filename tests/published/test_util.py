"""The helpers that scripts use."""

from __future__ import annotations

import io
import stat
import subprocess
import sys
import tempfile
import threading
from itertools import permutations
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy import util
from polygraphy.datatype import DataType
from polygraphy.exception import PolygraphyException
from polygraphy.json import load_json, save_json
from polygraphy.util import array as arrays


@pytest.mark.parametrize(
    ("name", "texts", "index", "found"),
    [
        ("a", ["b", "a"], None, "a"),
        ("CPU", ["cpu_x", "gpu"], None, "cpu_x"),
        ("CPUExecutionProvider", ["gpu", "cpu"], None, "cpu"),
        ("zz", ["a", "b"], 1, "b"),
        ("zz", ["a"], 5, None),
        ("zz", ["a"], -1, None),
        ("zz", iter([]), 0, None),
    ],
)
def test_a_name_finds_the_text_that_it_means(
    name: str, texts: Any, index: int | None, found: str | None
) -> None:
    assert util.find_str_in_iterable(name, texts, index) == found


@pytest.mark.parametrize(
    ("thing", "expected"),
    [([1], True), ((), True), (np.ones(2), True), ("ab", False), (b"a", False), ({1}, False),
     ({1: 2}, False), (3, False), (None, False)],
)  # fmt: skip
def test_sequences(thing: Any, expected: bool) -> None:
    assert util.is_sequence(thing) is expected


def test_values_that_may_be_missing() -> None:
    assert util.default(None, 3) == 3
    assert util.default(0, 3) == 0
    assert util.unique_list([3, 1, 3]) == [3, 1]
    assert util.invert_dict({"a": 1, "b": 2}) == {1: "a", 2: "b"}
    assert util.unpack_args((1, 2, 3), 2) == (1, 2)
    assert util.unpack_args(4, 3) == (4, None, None)
    assert util.invoke_if_callable(lambda x, y: x + y, 1, y=2) == (3, True)
    assert util.invoke_if_callable(5) == (5, False)
    assert util.value_or_from_dict({"a": 1, "": 2}, "b") == 2
    assert util.value_or_from_dict({"a": 1, "": 2}, "a") == 1
    assert util.value_or_from_dict({"a": 1}, "b", 9) == 9
    assert util.value_or_from_dict(7, "b") == 7


def test_keys_match_names_and_patterns() -> None:
    assert util.match_keys(["a*", "b", "q"], ["a1", "b", "c"]) == ({"a1": "a*", "b": "b"}, ["q"])
    assert util.match_keys(["a*", "a1"], ["a1", "a2"]) == ({"a1": "a1", "a2": "a*"}, [])
    assert util.contains_wildcard("a*")
    assert not util.contains_wildcard("a")


def test_what_a_sequence_lacks_is_named() -> None:
    with pytest.raises(
        PolygraphyException, match=r"These inputs were not found in the data: \[3\]"
    ):
        util.check_sequence_contains([1, 2], [1, 3], "the data", "inputs")
    reported: list[str] = []
    util.check_sequence_contains([1, 2], [1, 3], log_func=reported.append)
    assert [text.split(" in ")[0] for text in reported] == [
        "These items were not found", "These items were not expected"
    ]  # fmt: skip
    util.check_sequence_contains([1, 2], [1], check_extra=False)
    util.check_sequence_contains([1], [1, 2], check_missing=False)


@pytest.mark.parametrize(
    ("shape", "is_dynamic", "static"),
    [((1, 2), False, [1, 2]), ((-1, 2), True, [1, 2]), (("n",), True, [1]), ((None,), True, [1]),
     ((), False, [])],
)  # fmt: skip
def test_dynamic_shapes(shape: Any, is_dynamic: bool, static: list[int]) -> None:
    assert util.is_shape_dynamic(shape) is is_dynamic
    assert util.override_dynamic_shape(shape) == static
    assert util.override_dynamic_shape((None, 3), 7) == [7, 3]


def test_shapes() -> None:
    assert util.volume((2, 3)) == 6
    assert util.volume(()) == 1
    assert util.is_valid_shape_override((1, 2), ("n", 2))
    assert not util.is_valid_shape_override((1, 3), ("n", 2))
    assert not util.is_valid_shape_override((1,), ("n", 2))
    assert util.is_empty_shape((0, None))
    assert not util.is_empty_shape((None, 2))


@pytest.mark.parametrize(
    ("have", "want", "made"),
    [((2, 3), (3, 2), (3, 2)), ((1, 2, 3), (2, 3), (2, 3)), ((6,), (-1, 3), (2, 3)),
     ((6,), (4,), (6,)), ((6,), ("n", 4), (6,)), ((2, 3), ("a", "b"), (2, 3)),
     ((6,), ("a", "b"), (6,)), ((0, 3), (0, "n"), (0, 3))],
)  # fmt: skip
def test_a_shape_is_matched_where_it_can_be(have: Any, want: Any, made: Any) -> None:
    assert util.try_match_shape(np.zeros(have), want).shape == made


@pytest.mark.parametrize("want", [(None, 2, 2, 3), (1, 2, 2, 3), (-1, 2, 2, 3)])
def test_images_get_another_layout_not_other_pixels(want: Any) -> None:
    image = np.arange(12).reshape(1, 3, 2, 2)
    np.testing.assert_array_equal(util.try_match_shape(image, want), image.transpose(0, 2, 3, 1))
    rows = util.try_match_shape(image, (1, 2, 3, 2))
    np.testing.assert_array_equal(rows, image.transpose(0, 2, 1, 3))


@given(hnp.arrays(np.int64, hnp.array_shapes(max_dims=4, max_side=3)), st.data())
def test_an_order_of_dimensions_that_fits_is_chosen(array: Any, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(array.ndim)))
    shape = [data.draw(st.sampled_from([array.shape[axis], None, -1])) for axis in axes]
    made = util.try_match_shape(array, shape)
    assert util.is_valid_shape_override(made.shape, shape)
    orders = (array.transpose(order) for order in permutations(range(array.ndim)))
    assert any(np.array_equal(made, order) for order in orders)


@given(st.text())
def test_a_sanitized_name_is_the_name_of_a_file(text: str) -> None:
    name = util.sanitize_filename(text)
    assert name not in ("", ".", "..")
    assert not set(name) & set('<>:"/\\|?*\0\n')
    assert util.sanitize_filename(name) == name


def test_names_of_files() -> None:
    assert util.sanitize_filename("a/b c:d*?.onnx") == "a_b c_d__.onnx"
    assert util.add_file_suffix("a/b.onnx", "_1") == str(Path("a/b_1.onnx"))


def test_a_temporary_file_goes_with_its_block() -> None:
    with util.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"abc")
        file.flush()
        assert Path(file.name).read_bytes() == b"abc"
        assert file.name.endswith(".bin")
        assert stat.S_IMODE(Path(file.name).stat().st_mode) == 0o600
    assert not Path(file.name).exists()


def test_files_are_loaded_and_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "file")
    util.makedirs(path)
    assert (tmp_path / "folder").is_dir()
    assert util.save_file(b"abc", path) == path
    assert util.load_file(path) == b"abc"
    assert util.load_file(path, "r") == "abc"
    assert util.get_file_size(path) == 3
    util.save_file("ab", path, "w")
    assert util.load_file(path) == b"ab"
    assert util.find_in_dirs("*/fi*", [tmp_path, tmp_path / "folder"]) == [path]
    for wrong in (lambda: util.load_file(f"{path}x"), lambda: util.get_file_size(f"{path}x")):
        with pytest.raises(PolygraphyException, match="filex"):
            wrong()


def test_a_temporary_file_is_read_by_who_made_it_and_an_empty_one_is_no_mistake() -> None:
    with tempfile.NamedTemporaryFile() as made:
        assert util.load_file(made.name) == b"" and util.load_file(made.name, "r") == ""
        util.save_file(b"x", made.name)
        made.seek(0)
        assert made.read() == b"x"
        save_json({"a": 1}, made.name)  # It holds something, so it is replaced.
        assert load_json(made.name) == {"a": 1}


def test_streams_are_loaded_and_saved() -> None:
    stream = io.BytesIO()
    assert util.save_file(b"abc", stream) is stream
    assert util.get_file_size(stream) == 3
    assert util.load_file(stream) == b"abc"


def test_a_lock_keeps_others_waiting(tmp_path: Path) -> None:
    path, order = str(tmp_path / "file"), []

    def other() -> None:
        with util.LockFile(path):
            order.append("other")

    with util.LockFile(path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]
    assert not Path(path).exists()


NUMBERS = np.array([[3, -1], [2, 0]], np.float32)


def test_arrays_are_described() -> None:
    assert arrays.is_numpy(NUMBERS) and arrays.is_on_cpu(NUMBERS)
    assert not arrays.is_torch(NUMBERS) and not arrays.is_on_gpu(NUMBERS)
    assert not arrays.is_device_view(NUMBERS)
    assert arrays.dtype(NUMBERS) is DataType.FLOAT32
    assert (arrays.shape(NUMBERS), arrays.size(NUMBERS), arrays.nbytes(NUMBERS)) == ((2, 2), 4, 16)
    assert arrays.data_ptr(NUMBERS) == NUMBERS.ctypes.data
    assert arrays.is_contiguous(NUMBERS)
    assert not arrays.is_contiguous(NUMBERS.T)
    assert arrays.is_contiguous(arrays.make_contiguous(NUMBERS.T))
    assert arrays.make_contiguous(NUMBERS) is NUMBERS
    assert arrays.cast(NUMBERS, DataType.BFLOAT16).dtype == ml_dtypes.bfloat16
    for wrong in (lambda: arrays.data_ptr(3), lambda: arrays.to_numpy("text")):
        with pytest.raises(PolygraphyException, match=r"is not a supported array|has no address"):
            wrong()


def test_arrays_are_summed_up() -> None:
    assert (arrays.max(NUMBERS), arrays.min(NUMBERS)) == (3.0, -1.0)
    assert (arrays.argmax(NUMBERS), arrays.argmin(NUMBERS)) == (0, 1)
    assert (arrays.mean(NUMBERS), arrays.median(NUMBERS), arrays.sum(NUMBERS)) == (1.0, 1.0, 4.0)
    assert arrays.var(NUMBERS) == 2.5
    assert arrays.std(NUMBERS) == 2.5**0.5
    assert arrays.quantile(NUMBERS, 0.5) == 1.0
    assert arrays.quantile(NUMBERS, [0, 1]) == [-1.0, 3.0]
    assert arrays.any(NUMBERS) and not arrays.all(NUMBERS)
    assert arrays.sum(np.full(2, 2**64 - 1, np.uint64)) == 2**65 - 2
    assert arrays.mean(np.full(3, 60000, np.float16)) == 60000


def test_arrays_are_compared() -> None:
    assert arrays.equal(NUMBERS, NUMBERS.astype(np.int8))
    assert not arrays.equal(NUMBERS, NUMBERS + 1)
    assert arrays.allclose(NUMBERS, NUMBERS + 1e-9)
    assert not arrays.allclose(NUMBERS, NUMBERS + 1)
    assert arrays.allclose(NUMBERS, NUMBERS + 1, atol=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.float16])
def test_elements_are_asked_about(dtype: Any) -> None:
    array = np.array([0, np.inf, np.nan], dtype)
    assert arrays.isfinite(array).tolist() == [True, False, False]
    assert arrays.isinf(array).tolist() == [False, True, False]
    assert arrays.isnan(array).tolist() == [False, False, True]


def test_tensors_stay_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([0.0, float("nan")], dtype=torch.bfloat16)
    assert arrays.is_torch(tensor) and arrays.is_on_cpu(tensor)
    assert arrays.dtype(tensor) is DataType.BFLOAT16
    assert arrays.isnan(tensor).tolist() == [False, True]
    assert arrays.is_torch(arrays.isnan(tensor))
    assert arrays.to_torch(tensor) is tensor
    assert arrays.to_torch(NUMBERS).tolist() == NUMBERS.tolist()
    assert arrays.cast(tensor, DataType.FLOAT32).dtype is torch.float32


def test_nothing_heavy_is_imported_for_the_helpers() -> None:
    program = (
        "import sys, polygraphy.util; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
