"""Calibrators, called as TensorRT calls them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import HostMemory
from polygraphy.adapters.tensorrt.library.module import raise_kept_errors, use_module
from polygraphy.adapters.tensorrt.precision.calibrator import CalibrationData, Calibrator
from polygraphy.binding import bind
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import InputError, UnknownNameError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import InputHint, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.machine import DeviceMemory
from tests.support.build_callbacks import CallingTensorRT

TABLE = b"TRT-8600-Entropy\nx: 3c010a14\n"


@pytest.fixture
def memory() -> Iterator[HostMemory]:
    with bind(DeviceMemory, HostMemory()) as bound:
        yield bound


@pytest.fixture
def trt() -> Iterator[CallingTensorRT]:
    with use_module(CallingTensorRT()) as module:
        yield module


def feeds(count: int = 3, size: int = 4) -> Iterator[dict[str, Any]]:
    for index in range(count):
        yield {"x": np.full(size, index, np.float32), "y": np.ones(2, np.int32)}


def finish(calibrator: Any) -> None:
    raise_kept_errors(SimpleNamespace(int8_calibrator=calibrator))


def read(memory: HostMemory, address: int, size: int = 4) -> list[float]:
    array = np.empty(size, np.float32)
    memory.copy_to_host(array, address)
    return array.tolist()


def test_data_go_to_the_device_in_the_order_of_the_names(
    trt: CallingTensorRT, memory: HostMemory
) -> None:
    seen = []
    calibrator = Calibrator(feeds())
    assert calibrator.read_calibration_cache() is None
    while (batch := calibrator.get_batch(["y", "x"])) is not None:
        seen.append(read(memory, batch[1]))
    assert seen == [[index] * 4 for index in map(float, range(3))]
    assert sorted(memory.outstanding.values()) == [8, 16]
    calibrator.free()
    assert memory.outstanding == {}


def test_memory_grows_with_the_data(trt: CallingTensorRT, memory: HostMemory) -> None:
    with Calibrator([{"x": np.zeros(n, np.float32)} for n in (2, 8, 4)]) as calibrator:
        assert len(trt.calibrate(calibrator, ["x"])) == 3
        assert list(memory.outstanding.values()) == [32]
        finish(calibrator)
    assert memory.outstanding == {}


def test_the_cache_is_written_once_and_then_spares_the_data(
    trt: CallingTensorRT, memory: HostMemory, tmp_path: Path
) -> None:
    cache = tmp_path / "calibration.cache"
    assert len(trt.calibrate(Calibrator(feeds, cache=str(cache)), ["x"])) == 3
    assert cache.read_bytes() == TABLE

    def never() -> None:
        raise AssertionError("the data are not needed")

    calibrator = Calibrator(never, cache=str(cache))
    assert trt.calibrate(calibrator, ["x"]) == []
    finish(calibrator)


def test_an_empty_cache_is_no_cache(
    trt: CallingTensorRT, memory: HostMemory, tmp_path: Path
) -> None:
    (tmp_path / "c").touch()
    assert len(trt.calibrate(Calibrator(feeds(), cache=tmp_path / "c"), ["x"])) == 3
    assert (tmp_path / "c").read_bytes() == TABLE


def test_the_cache_may_be_an_open_file(trt: CallingTensorRT, memory: HostMemory) -> None:
    file = io.BytesIO(b"")
    trt.calibrate(Calibrator(feeds(), cache=file), ["x"])
    assert file.getvalue() == TABLE
    assert trt.calibrate(Calibrator(feeds(), cache=file), ["x"]) == []


def test_errors_of_the_data_loader_reach_the_caller_as_they_were(
    trt: CallingTensorRT, memory: HostMemory, tmp_path: Path
) -> None:
    class MineError(Exception):
        pass

    def broken() -> Iterator[dict[str, Any]]:
        yield from feeds(1)
        raise MineError("disk on fire")

    cache = tmp_path / "c"
    calibrator = Calibrator(broken(), cache=cache)
    assert len(trt.calibrate(calibrator, ["x"])) == 1
    with pytest.raises(MineError, match="disk on fire"):
        finish(calibrator)
    finish(calibrator)  # Once is enough.
    assert not cache.exists()


def test_interrupts_are_kept_too(trt: CallingTensorRT, memory: HostMemory) -> None:
    def interrupted() -> Iterator[dict[str, Any]]:
        raise KeyboardInterrupt
        yield {}

    calibrator = Calibrator(interrupted())
    assert calibrator.get_batch(["x"]) is None
    with pytest.raises(KeyboardInterrupt):
        finish(calibrator)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "no calibration data"),
        ([{"z": np.zeros(1, np.float32)}], "lacks 'x'"),
        ([{"x": np.array([1, np.nan], np.float32)}], "iteration 0 have no range: 'x' contains NaN"),
        ([{"x": np.zeros(0, np.float32)}], "iteration 0 have no range: 'x' is empty"),
    ],
)
def test_data_that_cannot_be_used(
    trt: CallingTensorRT, memory: HostMemory, data: Any, message: str
) -> None:
    calibrator = Calibrator(data)
    assert trt.calibrate(calibrator, ["x"]) == []
    with pytest.raises(InputError, match=message):
        finish(calibrator)


def test_data_are_checked_against_what_the_network_asks_for(
    trt: CallingTensorRT, memory: HostMemory
) -> None:
    wanted = TensorMetadata().add("x", np.float16, (4,)).add("y", np.int64, (2,))
    calibrator = Calibrator(feeds(1))
    calibrator.set_input_metadata(wanted)
    [addresses] = trt.calibrate(calibrator, ["x", "y"])
    finish(calibrator)
    assert sorted(memory.outstanding.values()) == [16, 16]  # Computed in float32; indices stay.
    integers = np.empty(2, np.int64)
    memory.copy_to_host(integers, addresses[1])
    assert integers.tolist() == [1, 1]
    calibrator = Calibrator(feeds(1, size=5))
    calibrator.set_input_metadata(wanted)
    trt.calibrate(calibrator, ["x"])
    with pytest.raises(InputError, match=r"'x' must have shape"):
        finish(calibrator)


def test_a_data_loader_is_reported_what_the_inputs_are(
    trt: CallingTensorRT, memory: HostMemory
) -> None:
    from polygraphy.comparator import DataLoader

    loader = DataLoader(iterations=2)
    calibrator = Calibrator(loader)
    calibrator.set_input_metadata(TensorMetadata().add("x", np.float32, (3,)))
    assert len(trt.calibrate(calibrator, ["x"])) == 2
    finish(calibrator)


def test_a_data_loader_is_reported_which_values_are_legal_and_says_so(
    trt: CallingTensorRT, memory: HostMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    from polygraphy.comparator import DataLoader

    calibrator = Calibrator(DataLoader())
    calibrator.set_input_metadata(TensorMetadata().add("ids", np.int32, (64,)))
    calibrator.set_model_facts(ModelFacts(input_hints={"ids": InputHint(5, 9, "an index")}))
    [[address]] = trt.calibrate(calibrator, ["ids"])
    finish(calibrator)
    ids = np.empty(64, np.int32)
    memory.copy_to_host(ids, address)
    assert set(ids) == {5, 6, 7, 8, 9}
    assert "Calibration data: Input tensor: ids | Using whole numbers" in capsys.readouterr().out


def test_data_on_the_device_stay_where_they_are(trt: CallingTensorRT, memory: HostMemory) -> None:
    assert trt.calibrate(Calibrator([{"x": 4096}, {"x": 8192}]), ["x"]) == [[4096], [8192]]
    assert memory.outstanding == {}


def test_data_are_read_anew_by_the_next_build(trt: CallingTensorRT, memory: HostMemory) -> None:
    calibrator = Calibrator(list(feeds()))
    assert len(trt.calibrate(calibrator, ["x"])) == calibrator.num_batches == 3
    for begin in (calibrator.reset, lambda: calibrator.set_input_metadata(None)):
        found = calibrator.read_calibration_cache()
        assert isinstance(found, bytes) and found
        assert trt.calibrate(calibrator, ["x"]) == []
        begin()
        assert calibrator.read_calibration_cache() is None
        assert len(trt.calibrate(calibrator, ["x"])) == 3


def test_batches_are_asked_for_by_keyword_too(trt: CallingTensorRT, memory: HostMemory) -> None:
    calibrator = Calibrator(list(feeds(1)))
    assert read(memory, calibrator.get_batch(names=["x"])[0]) == [0.0] * 4
    assert calibrator.get_batch(names=["x"]) is None


def test_a_file_is_read_or_written_as_it_is_open(
    trt: CallingTensorRT, memory: HostMemory, tmp_path: Path
) -> None:
    path = tmp_path / "cache"
    with path.open("wb") as stream:
        calibrator = Calibrator(list(feeds()), cache=stream)
        assert calibrator.read_calibration_cache() is None
        calibrator.write_calibration_cache(TABLE)
        finish(calibrator)
    with path.open("rb") as stream:
        calibrator = Calibrator([], cache=stream)
        assert calibrator.read_calibration_cache() == TABLE
        calibrator.write_calibration_cache(b"other")
        finish(calibrator)
    assert path.read_bytes() == TABLE


def test_an_input_that_the_network_does_not_have_is_refused(
    trt: CallingTensorRT, memory: HostMemory
) -> None:
    calibrator = Calibrator(list(feeds()))
    calibrator.set_input_metadata(TensorMetadata().add("x", np.float32, (4,)))
    assert calibrator.get_batch(["x"]) is None
    with pytest.raises(InputError, match=r"Extra inputs in .*'y'.*expects \['x'\]"):
        finish(calibrator)


@pytest.mark.parametrize("is_function", [False, True])
def test_generated_data_are_those_that_calibration_takes(
    trt: CallingTensorRT, memory: HostMemory, is_function: bool
) -> None:
    loader = DataLoader()
    calibrator = Calibrator((lambda: loader) if is_function else loader)
    calibrator.set_input_metadata(TensorMetadata().add("x", np.float16, (4,)))
    assert (
        read(memory, calibrator.get_batch(["x"])[0])
        == DataLoader(input_metadata=TensorMetadata().add("x", np.float32, (4,)))[0]["x"].tolist()
    )
    assert (
        loader.input_metadata["x"].dtype == calibrator.input_metadata["x"].dtype == DataType.FLOAT32
    )
    assert (calibrator.data_loader is loader) is not is_function
    calibrator.data_loader = []
    assert calibrator.data_loader == [] and calibrator.num_batches == 0


def test_the_base_class_and_the_algorithm_can_be_chosen(trt: CallingTensorRT) -> None:
    assert isinstance(Calibrator([]), trt.IInt8EntropyCalibrator2)
    by_name = Calibrator([], BaseClass="IInt8MinMaxCalibrator")
    by_class = Calibrator([], BaseClass=trt.IInt8MinMaxCalibrator)
    for one in (by_name, by_class):
        assert isinstance(one, trt.IInt8MinMaxCalibrator)
        assert one.get_algorithm() == "MINMAX_CALIBRATION"
    general = Calibrator([], BaseClass=trt.IInt8Calibrator)
    assert general.get_algorithm() == "ENTROPY_CALIBRATION_2"
    assert Calibrator([], algo="LEGACY").get_algorithm() == "LEGACY"
    with pytest.raises(UnknownNameError, match="IInt8MinMaxCalibrator"):
        Calibrator([], BaseClass="IInt8MaxMinCalibrator")


def test_numbers_are_handed_on(trt: CallingTensorRT) -> None:
    usual = Calibrator([])
    assert (usual.get_batch_size(), usual.get_quantile(), usual.get_regression_cutoff()) == (
        1,
        0.5,
        0.5,
    )
    chosen = Calibrator([], batch_size=4, quantile=0.9, regression_cutoff=0.1)
    assert chosen.get_batch_size() == 4
    assert (chosen.get_quantile(), chosen.get_regression_cutoff()) == (0.9, 0.1)


def test_histograms_are_not_kept(trt: CallingTensorRT) -> None:
    calibrator = Calibrator([])
    calibrator.write_histogram_cache(b"counts", 6)  # As TensorRT calls the legacy calibrator.
    assert calibrator.read_histogram_cache(6) is None


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({}, "entropy"),
        ({"BaseClass": "IInt8MinMaxCalibrator"}, "minmax"),
        ({"BaseClass": "IInt8LegacyCalibrator"}, "percentile"),
        ({"algo": "MINMAX_CALIBRATION"}, "minmax"),
    ],
)
def test_without_calibrators_the_data_are_kept_for_quantizing(
    options: dict[str, Any], method: str
) -> None:
    data = [{"x": 1}]
    with use_module(CallingTensorRT(has_calibrators=False)):
        made = Calibrator(data, cache="c", **options)
        assert made == CalibrationData(data, "c", method)
        with pytest.raises(UnknownNameError):
            Calibrator(data, BaseClass="Mine")


@pytest.mark.parametrize("has_calibrators", [True, False])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": 3}, "must be a path or a binary file, not an int"),
        ({"cache": io.StringIO()}, "must be a path or a binary file, not a StringIO"),
        ({"BaseClass": int}, "Base class of calibrators 'int'"),
        ({"BaseClass": 3}, "BaseClass must be a class"),
        ({"batch_size": -1}, "a positive whole number, not -1"),
        ({"quantile": 7}, "quantile must be a number from 0 to 1, not 7"),
        ({"regression_cutoff": float("nan")}, "regression_cutoff must be .* not nan"),
        ({"algo": "x"}, "Calibration algorithm 'x'"),
    ],
)
def test_arguments_that_no_calibration_can_use_are_errors(
    options: Any, message: str, has_calibrators: bool
) -> None:
    module = CallingTensorRT(has_calibrators=has_calibrators)
    with use_module(module), pytest.raises(UsageError, match=message):
        Calibrator([], **options)


def test_objects_and_classes_are_no_calibration_data(
    trt: CallingTensorRT, memory: HostMemory
) -> None:
    objects = [{"x": np.array([None, 1], object)}]
    for loader, message in [
        (objects, "'x' has the data type object"),
        (DataLoader, "is the class"),
    ]:
        calibrator = Calibrator(loader)
        trt.calibrate(calibrator, ["x"])
        with pytest.raises((InputError, UsageError), match=message):
            finish(calibrator)
