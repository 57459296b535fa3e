"""Small PNG pictures."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["gradient", "write_png"]


def gradient(size: int, hue: int) -> npt.NDArray[np.uint8]:
    """Return a color gradient, uint8 [size, size, 3]; each `hue` gives another picture."""
    ramp = np.arange(size) * 255 // (size - 1)
    channels = [
        np.broadcast_to(ramp, (size, size)),
        np.broadcast_to(ramp[:, np.newaxis], (size, size)),
        np.full((size, size), hue % 256),
    ]
    return np.stack(channels, axis=2).astype(np.uint8)


def write_png(path: Path, pixels: npt.NDArray[np.uint8]) -> None:
    """Write `pixels`, uint8 [height, width, 3], as a PNG file of 8-bit RGB.

    The pixels are stored rather than compressed: what a compressor writes depends on its version.
    """
    height, width, _ = pixels.shape
    unfiltered = np.zeros((height, 1), dtype=np.uint8)
    rows = np.concatenate([unfiltered, pixels.reshape(height, 3 * width)], axis=1)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), level=0))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG file: length, kind, content and checksum."""
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
