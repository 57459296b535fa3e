"""What a GPU is to the runners: the adapter has every method of the ports, with its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
import pytest

from polygraphy.adapters.cuda import wrapper as cuda_module
from polygraphy.adapters.cuda.device import CudaDevice, Event, Graph, Pinned, Stream
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError
from polygraphy.ports.machine import (
    Device,
    DeviceEvent,
    DeviceGraph,
    DeviceMemory,
    DeviceStream,
    PinnedBlock,
)
from tests.support.fake_cuda import FakeCudart

PARTS = [
    (Device, CudaDevice),
    (DeviceEvent, Event),
    (DeviceGraph, Graph),
    (DeviceStream, Stream),
    (PinnedBlock, Pinned),
]


@pytest.fixture
def device() -> Iterator[CudaDevice]:
    fake = FakeCudart()
    with cuda_module.use_module(fake):
        yield CudaDevice()
    assert fake.outstanding == {}


@pytest.mark.parametrize(("port", "adapter"), PARTS, ids=lambda part: part.__name__)
def test_takes_the_arguments_of_the_port(port: type, adapter: type) -> None:
    methods = [
        (name, method)
        for name, method in inspect.getmembers(port, inspect.isfunction)
        if not name.startswith("_")
    ]
    assert methods
    for name, method in methods:
        found = inspect.signature(getattr(adapter, name))
        assert list(found.parameters) == list(inspect.signature(method).parameters), name


def test_is_what_the_ports_are_bound_to() -> None:
    assert type(resolve(Device)) is CudaDevice
    assert type(resolve(DeviceMemory)) is CudaDevice


def test_parts_are_made_and_given_back(device: CudaDevice) -> None:
    stream, event, block = device.create_stream(), device.create_event(), device.pin(8)
    address = device.allocate(8)
    block.array[:] = np.arange(8)
    graph = device.capture(lambda on: on.to_device(address, block.address, 8), stream)
    graph.launch()
    stream.record(event)
    stream.synchronize()
    assert device.view(address, (8,), np.uint8).numpy().tolist() == list(range(8))
    assert event.seconds_since(event) == 0
    for part in (graph, stream, event, block):
        part.free()
        part.free()
    device.free(address)


def test_free_memory_shrinks_with_what_is_allocated(device: CudaDevice) -> None:
    before = device.free_memory()
    address = device.allocate(1000)
    assert before - device.free_memory() == 1000
    device.free(address)


def test_what_cannot_be_captured_is_an_error(device: CudaDevice) -> None:
    stream = device.create_stream()
    with pytest.raises(BackendError):
        device.capture(lambda on: on.synchronize(), stream)
    stream.free()
