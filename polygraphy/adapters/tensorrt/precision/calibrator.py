"""Feeds a TensorRT build that calibrates for INT8."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.adapters.arrays.foreign import device_buffer, host_array
from polygraphy.adapters.os.paths import atomic_file, translate_os_errors
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import guard_callback, trt
from polygraphy.binding import resolve
from polygraphy.domain.data.loading import fit_feed, iterate_feeds
from polygraphy.domain.errors import InputError, UnknownNameError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import with_article
from polygraphy.domain.tensors.precision import has_text, is_float
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import CalibrationCache
from polygraphy.ports.machine import Device, DeviceMemory, DeviceStream

_METHODS = {
    "IInt8Calibrator": "entropy",
    "IInt8EntropyCalibrator": "entropy",
    "IInt8EntropyCalibrator2": "entropy",
    "IInt8LegacyCalibrator": "percentile",
    "IInt8MinMaxCalibrator": "minmax",
}
_LOWERED = (DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8, DataType.UINT8)


def Calibrator(
    data_loader: Any,
    cache: CalibrationCache = None,
    BaseClass: Any = None,
    batch_size: int | None = None,
    quantile: float | None = None,
    regression_cutoff: float | None = None,
    algo: Any = None,
) -> Any:
    """Return a calibrator, for ``CreateConfig(int8=True, calibrator=...)`` or for TensorRT itself.

    Args:
        data_loader: yields feed dictionaries with arrays (NumPy or torch), memory on the GPU
            (`DeviceView`, torch, CuPy), or addresses of such memory as integers. A function that
            returns such an iterable is called when the data are needed. If the cache is complete,
            the data loader is not used.
        cache: a file for the calibration results. If it exists, it is read; else it is written
            after the calibration. A path, or a binary file that is open for reading, writing or
            both (default: results are kept until `CreateConfig` uses the calibrator for another
            build).
        BaseClass: the class of TensorRT to derive from, or its name
            (default: ``IInt8EntropyCalibrator2``).
        batch_size: for networks with an implicit batch, which no longer exist (default: 1).
        quantile: of ``IInt8LegacyCalibrator`` (default: 0.5).
        regression_cutoff: of ``IInt8LegacyCalibrator`` (default: 0.5).
        algo: a ``CalibrationAlgoType`` (default: follows from the base class).

    If TensorRT has no calibrators (11.x, TensorRT-RTX), the returned object only keeps the data for
    ``CreateConfig(int8=True, calibrator=...)``, which then quantizes the ONNX model. You cannot
    pass it to TensorRT itself.

    Raises:
        UsageError: an argument has a wrong type or value, such as a base class that does not exist
            in TensorRT.
    """
    _check_arguments(cache, BaseClass, batch_size, algo)
    _check_share("quantile", quantile)
    _check_share("regression_cutoff", regression_cutoff)
    if not capabilities().has("calibrators"):
        return CalibrationData(data_loader, cache, _method(BaseClass, algo))
    base, algo = _base_class(BaseClass), _algorithm(algo)
    if algo is None and base is trt.IInt8Calibrator:
        algo = trt.CalibrationAlgoType.ENTROPY_CALIBRATION_2
    methods: dict[str, Any] = {} if algo is None else {"get_algorithm": lambda self: algo}
    result = type("Calibrating", (_CalibratorMethods, base), methods)()
    result.begin(
        _Feed(data_loader),
        cache,
        1 if batch_size is None else batch_size,
        0.5 if quantile is None else quantile,
        0.5 if regression_cutoff is None else regression_cutoff,
    )
    return result


class _CalibratorMethods:
    """The methods that TensorRT calls, for any base class; see `Calibrator`."""

    def begin(
        self,
        feed: _Feed,
        cache: CalibrationCache,
        batch_size: int,
        quantile: float,
        regression_cutoff: float,
    ) -> None:
        """Set the arguments that the base class of TensorRT does not have."""
        self._feed, self._cache, self._batch_size = feed, cache, batch_size
        self._quantile, self._regression_cutoff = quantile, regression_cutoff
        self._found: bytes | None = None

    @property
    def data_loader(self) -> Any:
        """Return the data loader for calibration."""
        return self._feed.loader

    @data_loader.setter
    def data_loader(self, data_loader: Any) -> None:
        """Set the data loader for calibration."""
        self._feed.loader = data_loader
        self._feed.reset()

    @property
    def input_metadata(self) -> TensorMetadata | None:
        """Return names, data types and shapes of the network's inputs; None if they are unknown."""
        return self._feed.metadata

    @property
    def num_batches(self) -> int:
        """Return the number of batches that TensorRT received since the data started."""
        return self._feed.fed

    def set_input_metadata(self, input_metadata: TensorMetadata | None) -> None:
        """Set the inputs of the network, so that data are checked, and cast if no value is lost."""
        self._feed.set_metadata(input_metadata)
        self._found = None  # Earlier facts may belong to another network.

    def set_model_facts(self, facts: Facts) -> None:
        """Set other facts about the model, for a data loader that uses them."""
        self._feed.set_facts(facts)

    def reset(self) -> None:
        """Start with the first data again, and forget the results."""
        self._feed.reset()
        self._found = None

    def free(self) -> None:
        """Free the memory on the GPU."""
        self._feed.free()

    def __enter__(self) -> Any:
        """Return the calibrator, whose memory is freed at the end of the block."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Free the memory on the GPU."""
        self._feed.free()

    @guard_callback(None)
    def get_batch(self, names: Any) -> list[int] | None:
        """Return the GPU addresses of the next batch, by input; None at the end."""
        return self._feed.next_batch(list(names))

    def get_batch_size(self) -> int:
        """Return the size of a batch."""
        return self._batch_size

    @guard_callback(None)
    def read_calibration_cache(self) -> bytes | None:
        """Return the result of an earlier calibration; None if there is none."""
        self._feed.rewind()  # TensorRT reads the cache first; 8.6 reads it again at the end.
        return self._found if self._cache is None else _read(self._cache)

    @guard_callback(None)
    def write_calibration_cache(self, content: Any) -> None:
        """Store the result of the calibration."""
        self._found = bytes(content)
        if self._cache is not None:
            _write(self._cache, self._found)

    def get_quantile(self) -> float:
        """Return the quantile of the legacy calibrator."""
        return self._quantile

    def get_regression_cutoff(self) -> float:
        """Return the cutoff of the legacy calibrator."""
        return self._regression_cutoff

    def read_histogram_cache(self, length: int) -> None:
        """Return None, because histograms are not stored."""

    def write_histogram_cache(self, content: Any, length: int) -> None:
        """Do nothing, because histograms are not stored."""


@frozen
class CalibrationData:
    """The data and settings for quantizing a model, if TensorRT has no calibrators.

    Attributes:
        data_loader: an iterable of feed dictionaries, or a function that returns one.
        cache: the file or cache of value ranges.
        method: the method that chooses them: ``entropy``, ``minmax`` or ``percentile``.
    """

    data_loader: Any
    cache: CalibrationCache = None
    method: str = "entropy"


_ALGORITHMS = {"entropy": "entropy", "legacy": "percentile", "minmax": "minmax"}
"""The methods of the quantizer, by the first word of the algorithms of TensorRT."""


def _check_arguments(cache: Any, base: Any, batch_size: Any, algo: Any) -> None:
    """Raise UsageError for arguments that no calibration can use."""
    is_file = hasattr(cache, "readable") and not isinstance(cache, io.TextIOBase)
    if cache is not None and not isinstance(cache, (str, Path)) and not is_file:
        kind = with_article(type(cache).__name__)
        raise UsageError(
            f"The calibration cache must be a path or a binary file, not {kind}.",
            hint="Pass a path, as in cache='calibration.cache'.",
        )
    if base is not None and not isinstance(base, (str, type)):
        kind = with_article(type(base).__name__)
        raise UsageError(f"BaseClass must be a class of TensorRT or its name, not {kind}.")
    is_size = isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool)
    if batch_size is not None and not (is_size and batch_size > 0):
        raise UsageError(f"The batch size must be a positive whole number, not {batch_size!r}.")
    if algo is not None and _word_of(algo) not in _ALGORITHMS:
        raise UnknownNameError("Calibration algorithm", str(algo), [*_ALGORITHM_NAMES])


def _check_share(name: str, value: Any) -> None:
    """Raise UsageError unless an argument is a number from 0 to 1, or None."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= 1):
        raise UsageError(f"{name} must be a number from 0 to 1, not {value!r}.")


_ALGORITHM_NAMES = (
    "ENTROPY_CALIBRATION", "ENTROPY_CALIBRATION_2", "LEGACY_CALIBRATION", "MINMAX_CALIBRATION",
)  # fmt: skip


def _word_of(algo: Any) -> str:
    """Return the first word of the name of an algorithm, which may be given by its name."""
    return str(getattr(algo, "name", algo)).partition("_")[0].lower()


def _algorithm(wanted: Any) -> Any:
    """Return an algorithm of TensorRT, given as such or by name."""
    if wanted in _ALGORITHM_NAMES:
        return getattr(trt.CalibrationAlgoType, wanted, wanted)
    return wanted


def _base_class(wanted: Any) -> Any:
    """Return a base class of calibrators, given as such or by name.
    Raise UnknownNameError for others.
    """
    if wanted is None:
        return trt.IInt8EntropyCalibrator2
    if not isinstance(wanted, str):
        if issubclass(wanted, trt.IInt8Calibrator):
            return wanted
        raise UnknownNameError("Base class of calibrators", wanted.__name__, _METHODS)
    if wanted not in _METHODS or not hasattr(trt, wanted):
        raise UnknownNameError("Base class of calibrators", wanted, _METHODS)
    return getattr(trt, wanted)


def _method(base: Any, algo: Any) -> str:
    """Return the calibration method closest to a calibrator class or an algorithm."""
    name = base if isinstance(base, str) else getattr(base, "__name__", "IInt8Calibrator")
    if name not in _METHODS:
        raise UnknownNameError("Base class of calibrators", name, _METHODS)
    return _METHODS[name] if algo is None else _ALGORITHMS[_word_of(algo)]


class _Feed:
    """Copies data to the GPU, one feed dictionary after another; memory is allocated once per
    input, and again if the data grow."""

    def __init__(self, data_loader: Any) -> None:
        """Set the data loader; nothing is allocated yet."""
        self.loader = data_loader
        self.metadata: TensorMetadata | None = None
        self.fed = 0
        self._facts: Facts | None = None
        self._data: Iterator[Mapping[str, Any]] | None = None
        self._buffers: dict[str, tuple[int, int]] = {}
        self._held: list[Any] = []
        self._stream: DeviceStream | None = None

    def set_metadata(self, metadata: TensorMetadata | None) -> None:
        """Set the metadata of the inputs, and describe them to the data loader."""
        self.metadata = None if metadata is None else _calibration_metadata(metadata)
        self._pass_inputs(self.loader)

    def set_facts(self, facts: Facts) -> None:
        """Set the facts of the model, and describe the inputs to the data loader."""
        self._facts = facts
        self._pass_inputs(self.loader)

    def _pass_inputs(self, loader: Any) -> None:
        """Pass the inputs of the network to a loader that uses them."""
        if self.metadata is not None and hasattr(loader, "input_metadata"):
            loader.input_metadata = self.metadata
        if self._facts is not None and hasattr(loader, "model_facts"):
            loader.model_facts = self._facts

    def reset(self) -> None:
        """Start with the first input set again."""
        self.rewind()
        self.fed = 0

    def rewind(self) -> None:
        """Start with the first data again, at the next batch."""
        self._data = None

    def free(self) -> None:
        """Free the device memory and the stream."""
        while self._buffers:
            _, (address, _) = self._buffers.popitem()
            resolve(DeviceMemory).free(address)
        if self._stream is not None:
            self._stream.free()
            self._stream = None

    def next_batch(self, names: list[str]) -> list[int] | None:
        """Return the GPU addresses of the next batch, by input; None at the end."""
        if self._data is None:
            self.fed = 0
            loader = _iterable(self.loader)
            self._pass_inputs(loader)  # The caller may have created it just now.
            self._data = iterate_feeds(loader)
        feed_dict = next(self._data, None)
        if feed_dict is None:
            if not self.fed:
                raise InputError(
                    "There is no calibration data: the data loader is empty.",
                    hint="A generator can be used only once: pass a list, or a function that"
                    " returns a"
                    " new generator.",
                )
            return None
        fitted = self._fit_feed(feed_dict, names)
        self.fed += 1
        return self._addresses((name, fitted[name]) for name in names)

    def _fit_feed(self, feed_dict: Mapping[str, Any], names: list[str]) -> Mapping[str, Any]:
        """Return data that fit the inputs of the network.
        Data on the GPU are returned unchanged."""
        missing = [name for name in names if name not in feed_dict]
        if missing:
            raise InputError(
                f"The calibration data of iteration {self.fed} lacks"
                f" {', '.join(map(repr, missing))}; found {list(feed_dict)}."
            )
        if self.metadata is None:
            return feed_dict
        extra = [name for name in feed_dict if name not in self.metadata]
        if extra:
            raise InputError(
                f"Extra inputs in the calibration data of iteration {self.fed}:"
                f" {', '.join(map(repr, extra))}. The network expects {list(self.metadata)}."
            )
        wanted = TensorMetadata({name: self.metadata[name] for name in names})
        fitted, notes = fit_feed(feed_dict, wanted)
        if not self.fed:
            for note in (*notes, *getattr(self.loader, "notes", ())):
                G_LOGGER.warning(f"Calibration data: {note}")
        return fitted

    def _addresses(self, values: Iterable[tuple[str, Any]]) -> list[int]:
        """Return the GPU addresses of values, which are valid until the next call."""
        self._held = []
        return [
            value if isinstance(value, int) else self._address(name, value)
            for name, value in values
        ]

    def _address(self, name: str, value: Any) -> int:
        """Return the GPU address of a value, which is copied if it is on the host."""
        if not isinstance(value, np.ndarray):
            buffer = device_buffer(value, self._ordered_stream())
            if buffer is not None:
                address, _, keeper = buffer
                self._held.append(keeper)
                self._ordered_stream().synchronize()
                return address
        array = np.ascontiguousarray(host_array(value))
        if has_text(array):
            raise InputError(
                f"The calibration data of iteration {self.fed - 1} are no numbers: {name!r} has the"
                f" data type {array.dtype}."
            )
        useless = "is empty" if not array.size else "contains NaN" if _has_nan(array) else ""
        if useless:
            raise InputError(
                f"The calibration data of iteration {self.fed - 1} have no range:"
                f" {name!r} {useless}."
            )
        memory = resolve(DeviceMemory)
        address, nbytes = self._buffers.get(name, (0, -1))
        if nbytes < array.nbytes:
            if self._buffers.pop(name, None) is not None:
                memory.free(address)
            address = memory.allocate(array.nbytes)
            self._buffers[name] = (address, array.nbytes)
        memory.copy_to_device(address, array)
        return address

    def _ordered_stream(self) -> DeviceStream:
        """Return a stream that waits for those on which data are computed."""
        if self._stream is None:
            self._stream = resolve(Device).create_stream()
        return self._stream


def _has_nan(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array contains NaN."""
    return is_float(array) and bool(np.isnan(array).any())


def _calibration_metadata(metadata: TensorMetadata) -> TensorMetadata:
    """Return the inputs during calibration:
    TensorRT computes in float32 for any input types; only indices remain integers."""
    full = TensorMetadata()
    for name, (dtype, shape) in metadata.items():
        full.add(name, DataType.FLOAT32 if dtype in _LOWERED else dtype, shape)
    return full


def _iterable(loader: Any) -> Iterable[Mapping[str, Any]]:
    """Return the data of a loader, which may be a function."""
    is_iterable = hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
    iterable: Iterable[Mapping[str, Any]] = (
        loader if is_iterable or not callable(loader) else loader()
    )
    return iterable


def _read(cache: CalibrationCache) -> bytes | None:
    """Return the content of a calibration cache; None if there is none."""
    if cache is None:
        return None
    if not isinstance(cache, (str, Path)):
        if not cache.readable():
            return None
        cache.seek(0)
        return cache.read() or None
    path = Path(cache)
    if not path.exists():
        return None
    with translate_os_errors(path, "read"):
        content = path.read_bytes()
    if not content:
        G_LOGGER.warning(f"The calibration cache {path} is empty: calibrating again.")
        return None
    G_LOGGER.progress(f"Reading calibration cache from {path}")
    return content


def _write(cache: Any, content: bytes) -> None:
    """Write the content of a calibration cache."""
    if isinstance(cache, (str, Path)):
        G_LOGGER.info(f"Writing calibration cache to {cache}")
        with atomic_file(cache) as stream:
            stream.write(content)
        return
    if not cache.writable():
        return
    cache.seek(0)
    cache.write(content)
    cache.truncate()
    cache.flush()
