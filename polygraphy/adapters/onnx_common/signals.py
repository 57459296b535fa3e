"""Transforms of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.elementwise import Array, round_like, to_float64


def stft(
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    *,
    onesided: int = 1,
    **_: Any,
) -> Array:
    """Return the spectrum of each frame of a signal,
    with real and imaginary parts on the last axis; samples beyond the last whole frame are
    dropped.

    Args:
        signal: of shape (batch, samples, 1), (batch, samples, 2) where it is complex, or (batch,
            samples), which ONNX Runtime takes as well.
        frame_step: the distance of frames.
        window: the factors of the samples of a frame.
        frame_length: the number of samples of a frame (default: of the window).
        onesided: whether the second half of the spectrum, which a real signal repeats, is dropped.
    """
    values = to_float64(signal)
    if signal.ndim == 2:
        values = values[..., np.newaxis]
    if values.ndim != 3 or values.shape[-1] not in (1, 2):
        raise ValueError("the signal is neither real nor complex")
    samples = values[..., 0] if values.shape[-1] == 1 else values[..., 0] + 1j * values[..., 1]
    if frame_length is not None and np.size(frame_length):
        length = int(np.asarray(frame_length).reshape(()))
    elif window is not None:
        length = window.shape[0]
    else:
        raise ValueError("neither a window nor a frame length is given")
    step = int(np.asarray(frame_step).reshape(()))
    if not 0 < length <= samples.shape[1] or step < 1:
        raise ValueError(f"frames of {length} samples at a distance of {step} do not fit")
    frames = np.lib.stride_tricks.sliding_window_view(samples, length, axis=1)[:, ::step]
    if window is not None:
        frames = frames * to_float64(window)
    spectrum = np.fft.fft(frames, axis=-1)
    if onesided:
        spectrum = spectrum[..., : length // 2 + 1]
    return round_like(np.stack([spectrum.real, spectrum.imag], axis=-1), signal)
