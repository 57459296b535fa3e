"""What every device memory promises, asked of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import Bundle as States
from hypothesis.stateful import RuleBasedStateMachine, consumes, invariant, rule

from polygraphy.adapters.cuda import wrapper as cuda_module
from polygraphy.adapters.cuda.device import CudaDevice
from polygraphy.adapters.fake import HostMemory
from polygraphy.domain.errors import BackendError
from polygraphy.ports.machine import DeviceMemory
from tests.support.fake_cuda import FakeCudart

MEMORIES: dict[str, Callable[[], DeviceMemory]] = {"cuda": CudaDevice, "host": HostMemory}


@pytest.fixture(params=MEMORIES)
def memory(request: pytest.FixtureRequest) -> Iterator[DeviceMemory]:
    with cuda_module.use_module(FakeCudart()):
        yield MEMORIES[request.param]()


@pytest.mark.parametrize("adapter", MEMORIES.values(), ids=MEMORIES)
def test_takes_the_arguments_of_the_port(adapter: type) -> None:
    for name, method in inspect.getmembers(DeviceMemory, inspect.isfunction):
        if not name.startswith("_"):
            found = inspect.signature(getattr(adapter, name))
            assert list(found.parameters) == list(inspect.signature(method).parameters)


ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.array(7, dtype=np.int64),
    np.zeros((0, 3), dtype=np.float16),
    np.array([True, False]),
    np.array([1.5, -2], dtype=ml_dtypes.bfloat16),
    np.array([1 + 2j]),
    np.array([1, 2], dtype=">i4"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_there_and_back(memory: DeviceMemory, array: Any) -> None:
    address = memory.allocate(array.nbytes)
    assert isinstance(address, int)
    memory.copy_to_device(address, array)
    back = np.empty_like(array)
    memory.copy_to_host(back, address)
    np.testing.assert_array_equal(back, array, strict=True)
    memory.free(address)


def test_a_copy_is_a_copy(memory: DeviceMemory) -> None:
    source = np.arange(4.0)
    address = memory.allocate(source.nbytes)
    memory.copy_to_device(address, source)
    source[:] = -1
    back = np.empty(4)
    memory.copy_to_host(back, address)
    np.testing.assert_array_equal(back, np.arange(4.0))
    memory.free(address)


def test_allocations_do_not_touch_each_other(memory: DeviceMemory) -> None:
    addresses = [memory.allocate(size) for size in (1, 255, 256, 257, 0, 3)]
    assert len(set(addresses)) == len(addresses)
    for value, (address, size) in enumerate(zip(addresses, (1, 255, 256, 257, 0, 3))):
        memory.copy_to_device(address, np.full(size, value, dtype=np.uint8))
    for value, (address, size) in enumerate(zip(addresses, (1, 255, 256, 257, 0, 3))):
        back = np.empty(size, dtype=np.uint8)
        memory.copy_to_host(back, address)
        assert (back == value).all()
        memory.free(address)


def test_memory_may_be_larger_than_what_is_copied(memory: DeviceMemory) -> None:
    address = memory.allocate(16)
    memory.copy_to_device(address, np.array([1, 2], dtype=np.uint8))
    back = np.empty(2, dtype=np.uint8)
    memory.copy_to_host(back, address)
    np.testing.assert_array_equal(back, [1, 2])
    memory.free(address)


def test_a_read_only_source_will_do(memory: DeviceMemory) -> None:
    source = np.frombuffer(b"abcd", dtype=np.uint8)
    address = memory.allocate(4)
    memory.copy_to_device(address, source)
    memory.free(address)


def test_freeing_twice_is_an_error(memory: DeviceMemory) -> None:
    address = memory.allocate(8)
    memory.free(address)
    with pytest.raises(BackendError):
        memory.free(address)


@pytest.mark.parametrize("address", [1, 2**40 + 1])
def test_freeing_what_was_never_allocated_is_an_error(memory: DeviceMemory, address: int) -> None:
    with pytest.raises(BackendError):
        memory.free(address)


# What the host memory promises on top: it catches what a device would only do by accident.


@pytest.fixture
def host() -> HostMemory:
    return HostMemory()


def test_an_overrun_is_caught_in_both_directions(host: HostMemory) -> None:
    address = host.allocate(7)
    array = np.zeros(2, dtype=np.float32)
    with pytest.raises(BackendError, match=r"8 bytes .* more than the 7"):
        host.copy_to_device(address, array)
    with pytest.raises(BackendError, match=r"8 bytes .* more than the 7"):
        host.copy_to_host(array, address)


def test_use_after_free_is_caught_even_when_the_memory_is_in_use_again(host: HostMemory) -> None:
    address = host.allocate(8)
    host.free(address)
    host.allocate(8)
    with pytest.raises(BackendError, match="not allocated"):
        host.copy_to_device(address, np.zeros(1))


def test_an_address_may_point_into_an_allocation(host: HostMemory) -> None:
    address = host.allocate(4)
    host.copy_to_device(address, np.array([1, 2, 3, 4], dtype=np.uint8))
    back = np.empty(2, dtype=np.uint8)
    host.copy_to_host(back, address + 2)
    np.testing.assert_array_equal(back, [3, 4])
    with pytest.raises(BackendError, match="more than the 1"):
        host.copy_to_host(back, address + 3)
    with pytest.raises(BackendError, match="not allocated"):
        host.copy_to_host(back, address + 5)
    with pytest.raises(BackendError, match="cannot be freed"):
        host.free(address + 2)


def test_leaks_are_listed(host: HostMemory) -> None:
    kept, freed = host.allocate(8), host.allocate(16)
    assert host.outstanding == {kept: 8, freed: 16}
    host.free(freed)
    assert host.outstanding == {kept: 8}
    host.free(kept)
    assert host.outstanding == {}


def test_capacity_is_a_limit_and_freeing_gives_it_back() -> None:
    host = HostMemory(capacity=10)
    address = host.allocate(8)
    with pytest.raises(BackendError, match="3 bytes were requested, but 8 of 10"):
        host.allocate(3)
    host.free(address)
    host.allocate(10)


def test_a_negative_size_is_refused(host: HostMemory) -> None:
    with pytest.raises(BackendError, match="-1"):
        host.allocate(-1)


def test_new_memory_holds_garbage(host: HostMemory) -> None:
    back = np.zeros(4, dtype=np.uint8)
    host.copy_to_host(back, host.allocate(4))
    assert (back == 0xA5).all()


@pytest.mark.parametrize("array", [np.zeros((3, 4)).T, np.zeros(8)[::2]], ids=["transposed", "gap"])
def test_what_is_not_contiguous_is_refused(host: HostMemory, array: Any) -> None:
    address = host.allocate(array.nbytes)
    with pytest.raises(BackendError, match="contiguous"):
        host.copy_to_device(address, array)
    with pytest.raises(BackendError, match="contiguous"):
        host.copy_to_host(array, address)


def test_a_read_only_target_is_refused(host: HostMemory) -> None:
    with pytest.raises(BackendError, match="written"):
        host.copy_to_host(np.frombuffer(b"abcd", dtype=np.uint8), host.allocate(4))


@pytest.mark.slow
@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)))
def test_the_bytes_of_any_array_survive(array: Any) -> None:
    host = HostMemory()
    address = host.allocate(array.nbytes)
    host.copy_to_device(address, array)
    back = np.empty_like(array)
    host.copy_to_host(back, address)
    assert back.tobytes() == array.tobytes()


class Allocations(RuleBasedStateMachine):
    """Allocates, writes, reads and frees in any order, beside a dictionary that does the same."""

    addresses = States("addresses")

    def __init__(self) -> None:
        super().__init__()
        self.host = HostMemory()
        self.model: dict[int, bytes] = {}

    @rule(target=addresses, content=st.binary(max_size=600))
    def allocate(self, content: bytes) -> int:
        address = self.host.allocate(len(content))
        assert address not in self.model
        self.host.copy_to_device(address, np.frombuffer(content, dtype=np.uint8))
        self.model[address] = content
        return address

    @rule(address=addresses, start=st.integers(0, 600))
    def read(self, address: int, start: int) -> None:
        content = self.model[address][start:]
        back = np.empty(len(content), dtype=np.uint8)
        if start <= len(self.model[address]):
            self.host.copy_to_host(back, address + start)
            assert back.tobytes() == content

    @rule(address=consumes(addresses))
    def free(self, address: int) -> None:
        self.host.free(address)
        del self.model[address]

    @invariant()
    def nothing_else_is_outstanding(self) -> None:
        sizes = {address: len(content) for address, content in self.model.items()}
        assert self.host.outstanding == sizes


TestAllocations = Allocations.TestCase
