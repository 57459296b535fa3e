"""Calibration batches from the pictures in calibration_images/, normalized as for ImageNet.

The pictures are unfiltered PNG files of 8-bit RGB, which takes no image library to read.
"""

import struct
import zlib
from pathlib import Path

import numpy as np

FOLDER = Path("calibration_images")
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
LIMIT = 500
SIZE = 224


def read_png(path):
    """Return the pixels of an image, uint8 [height, width, 3]."""
    data = path.read_bytes()
    width, height, depth, color = struct.unpack(">IIBB", data[16:26])
    if (depth, color) != (8, 2):
        raise ValueError(f"{path}: expected 8-bit RGB, found depth {depth}, color type {color}")
    compressed, position = b"", 8
    while position < len(data):
        length, kind = struct.unpack(">I4s", data[position : position + 8])
        if kind == b"IDAT":
            compressed += data[position + 8 : position + 8 + length]
        position += length + 12
    rows = np.frombuffer(zlib.decompress(compressed), np.uint8).reshape(height, 1 + 3 * width)
    if rows[:, 0].any():
        raise ValueError(f"{path}: filtered rows are not supported")
    return rows[:, 1:].reshape(height, width, 3)


def preprocess(pixels):
    """Return pixels scaled to 224 x 224 and normalized: float32 [1, 3, 224, 224]."""
    height, width, _ = pixels.shape
    rows = np.arange(SIZE) * height // SIZE
    columns = np.arange(SIZE) * width // SIZE
    image = pixels[rows][:, columns].astype(np.float32) / 255
    return np.ascontiguousarray(((image - MEAN) / STD).transpose(2, 0, 1)[np.newaxis])


def load_data():
    """Yield one input set per image, at most 500."""
    for path in sorted(FOLDER.glob("*.png"))[:LIMIT]:
        yield {"input": preprocess(read_png(path))}
