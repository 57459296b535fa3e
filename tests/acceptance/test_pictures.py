"""Pictures as input data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from PIL import Image

from polygraphy.comparator import StreamingDataLoader
from polygraphy.domain.data.preprocessing import LAYOUTS, Preprocess
from polygraphy.exception import PolygraphyException
from polygraphy.logger import G_LOGGER
from tests.acceptance.conftest import Done

Run = Callable[..., Done]
HEIGHT, WIDTH = 6, 8


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model(shape: list[object] | None = None) -> None:
    """Save a model that takes pictures as PyTorch has them."""
    value = helper.make_tensor_value_info
    shape = shape or ["n", 3, HEIGHT, WIDTH]
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)
    inputs = [value("x", onnx.TensorProto.FLOAT, shape)]
    graph = helper.make_graph([node], "m", inputs, [value("y", onnx.TensorProto.FLOAT, None)])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        "m.onnx",
    )


def picture(name: str, seed: int = 0, size: tuple[int, int] = (HEIGHT, WIDTH)) -> np.ndarray:
    array = np.random.RandomState(seed).randint(0, 256, (*size, 3)).astype(np.uint8)
    Image.fromarray(array).save(name)
    return array


HOW = "scale=1/255 mean=0.485:0.456:0.406 std=0.229:0.224:0.225 layout=nchw"


def test_pictures_are_scaled_normalized_and_laid_out(polygraphy: Run) -> None:
    model()
    arrays = [picture(f"{index}.png", index) for index in range(3)]
    done = polygraphy(
        f"polygraphy run m.onnx --onnxrt --onnx --load-inputs 0.png 1.png 2.png --preprocess {HOW}"
        " --save-inputs in.json"
    )
    assert done.code == 0, done.out + done.err
    from polygraphy.json import load_json

    for feed, array in zip(load_json("in.json"), arrays):
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        expected = ((array / 255 - mean) / std).transpose(2, 0, 1)[None]
        assert feed["x"].dtype == np.float32
        np.testing.assert_allclose(feed["x"], expected, rtol=1e-6)


def test_a_folder_of_pictures_is_an_iteration_each_of_one_size(polygraphy: Run) -> None:
    model()
    Path("data").mkdir()
    for index in range(4):
        picture(f"data/{index}.jpg", index, (HEIGHT + index, WIDTH))
    Path("data/notes.txt").write_text("not an image")
    command = "polygraphy run m.onnx --onnxrt --onnx --load-inputs data --preprocess layout=nchw"
    done = polygraphy(command)
    assert done.code == 2
    assert "1.jpg: the image has shape (1, 3, 7, 8)" in done.err
    assert f"resize={WIDTH}x{HEIGHT}" in done.err
    done = polygraphy(f"{command} resize={WIDTH}x{HEIGHT}")
    assert done.code == 0
    assert "4 iterations" in done.out
    assert "only the images directly in this folder" not in done.out
    Path("data/cat").mkdir()
    picture("data/cat/1.jpg", 1, (HEIGHT, WIDTH))
    done = polygraphy(f"{command} resize={WIDTH}x{HEIGHT}")
    assert (
        "only the images directly in this folder are used, not those in 1 subfolder, such as 'cat'"
        in done.out
    )


def test_the_program_says_what_is_done(polygraphy: Run) -> None:
    done = polygraphy(
        f"polygraphy run m.onnx --onnxrt --load-inputs a.png --preprocess {HOW} --gen-script -"
    )
    assert "preprocess={" in done.out
    assert '"mean": [0.485, 0.456, 0.406]' in done.out


@pytest.mark.parametrize("mode", ["L", "RGBA", "I;16", "P", "CMYK"])
def test_other_pictures_are_converted_with_a_line(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    array = picture("a.png")
    if mode == "I;16":
        gray = Image.fromarray(array[..., 0].astype(np.uint16) * 257)
    else:
        gray = Image.fromarray(array).convert(mode)
    gray.save("b.tif" if mode == "CMYK" else "b.png")
    with G_LOGGER.preserve():
        G_LOGGER.module_severity = G_LOGGER.WARNING
        [feed] = StreamingDataLoader("b.tif" if mode == "CMYK" else "b.png")
    assert feed["image"].shape == (1, HEIGHT, WIDTH, 3)
    assert feed["image"].dtype == np.uint8
    if mode == "I;16":
        assert np.array_equal(feed["image"][0, ..., 1], array[..., 0])


def test_a_model_of_one_channel_takes_pictures_in_gray(
    polygraphy: Run,
) -> None:
    model(["n", 1, HEIGHT, WIDTH])
    gray = np.random.RandomState(0).randint(0, 256, (HEIGHT, WIDTH)).astype(np.uint8)
    Image.fromarray(gray).save("gray.png")
    picture("color.png")
    saved = {}
    for name in ("gray", "color"):
        done = polygraphy(
            f"polygraphy run m.onnx --onnxrt --load-inputs {name}.png"
            " --preprocess layout=nchw --save-inputs in.json"
        )
        assert done.code == 0, done.out
        said = done.out + done.err
        plain = polygraphy(f"polygraphy run m.onnx --onnxrt --load-inputs {name}.png")
        assert plain.code == 2
        assert f"{name}.png: the image has shape (1, 6, 8, 3)" in plain.err
        assert "--preprocess layout=nchw" in plain.err
        assert ("Images of mode RGB are converted to 8-bit gray" in said) == (name == "color")
        [saved[name]] = [feed["x"] for feed in StreamingDataLoader("in.json")]
    assert np.array_equal(saved["gray"][0, 0], gray)
    assert saved["color"].shape == (1, 1, HEIGHT, WIDTH)
    done = polygraphy(
        "polygraphy run m.onnx --onnxrt --load-inputs color.png --preprocess layout=chw"
        " --save-inputs in.json"
    )
    assert done.code == 0, done.err  # One sample, not one of each channel.
    assert [feed["x"].size for feed in StreamingDataLoader("in.json")] == [HEIGHT * WIDTH]
    done = polygraphy(
        "polygraphy run m.onnx --onnxrt --load-inputs gray.png"
        " --preprocess layout=nchw mean=0.4:0.5:0.6"
    )
    assert done.code != 0
    assert "gray.png: the image has 1 channel, but mean has 3 numbers." in done.err


def test_a_picture_is_turned_as_its_camera_was() -> None:
    array = picture("a.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # Turned by a quarter.
    Image.fromarray(array).save("b.png", exif=exif)
    [feed] = StreamingDataLoader("b.png")
    assert np.array_equal(feed["image"][0], np.rot90(array, -1))


@pytest.mark.parametrize("name", ["sound.wav", "empty_folder"])
def test_what_is_no_input_data_is_told_what_is(name: str, polygraphy: Run) -> None:
    model()
    Path("empty_folder").mkdir()
    Path("sound.wav").write_bytes(b"RIFF")
    done = polygraphy(f"polygraphy run m.onnx --onnxrt --load-inputs {name}")
    assert done.code == 3
    assert name in done.err
    assert ".safetensors, .npy, .npz, .pb, .pt, .bin, .raw and images" in done.err


def test_a_damaged_picture_and_a_missing_library_are_one_line(
    polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    model()
    Path("bad.png").write_bytes(b"\x89PNG nothing")
    done = polygraphy("polygraphy run m.onnx --onnxrt --load-inputs bad.png")
    assert done.code == 3
    assert "bad.png: its contents are not an image. Supported" in done.err
    assert ".jpg" in done.err
    picture("good.png")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(PolygraphyException, match="pip install pillow"):
        list(StreamingDataLoader("good.png"))


@pytest.mark.parametrize(
    "words", ["nonsense=1", "scale", "scale=x", "resize=0x3", "std=0", "layout=hcw", "scale=1/0"]
)
def test_a_step_that_cannot_be_meant_is_refused(words: str, polygraphy: Run) -> None:
    model()
    picture("a.png")
    done = polygraphy(f"polygraphy run m.onnx --onnxrt --load-inputs a.png --preprocess {words}")
    assert done.code == 2
    assert words.partition("=")[0] in done.err


def test_other_channels_than_numbers_are_named() -> None:
    picture("a.png")
    with pytest.raises(
        PolygraphyException, match=r"a\.png: the image has 3 channels, but mean has 2"
    ):
        list(StreamingDataLoader("a.png", preprocess={"mean": [0.1, 0.2]}))
    with pytest.raises(PolygraphyException, match="is not a preprocessing step"):
        StreamingDataLoader("a.png", preprocess={"means": 1})


@given(
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    layout=st.sampled_from(LAYOUTS),
    scale=st.floats(0.01, 10),
    mean=st.floats(-2, 2),
    std=st.floats(0.1, 3),
)
def test_steps_are_applied_in_their_order(
    height: int, width: int, layout: str, scale: float, mean: float, std: float
) -> None:
    array = np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)
    made = Preprocess(layout=layout, scale=scale, mean=mean, std=std)(array, "a.png")
    sizes = {"n": 1, "c": 3, "h": height, "w": width}
    assert made.shape == tuple(sizes[letter] for letter in layout)
    back = made[0] if layout[0] == "n" else made
    back = back.transpose(1, 2, 0) if layout.endswith("chw") else back
    np.testing.assert_allclose(back, (array * scale - mean) / std, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "layout", "advice"),
    [
        ([1, 3, 32, 64], "nchw", "resize=64x32"),
        ([1, 299, 200, 3], "nhwc", "resize=200x299"),
        ([32, 64, 3], "hwc", "resize=64x32"),
        ([1, 3, "h", 64], "nchw", "resize=224x224"),
        ([1, 3, 32, 64], "nhwc", "layout=nchw"),
    ],
)
def test_the_size_that_is_proposed_is_that_of_the_input(
    shape: list[Any], layout: str, advice: str
) -> None:
    assert advice in Preprocess(layout=layout).advice(shape)
