"""How long the parts of an inference take on the device."""

from __future__ import annotations

from polygraphy.domain.results.device_times import DeviceTimes
from polygraphy.ports.machine import Device, DeviceStream

__all__ = ["DeviceTimes", "Stopwatch"]


class Stopwatch:
    """Marks four moments on a stream: before the inputs are copied, before and after the engine
    runs, and after the outputs are copied.
    """

    def __init__(self, device: Device) -> None:
        """Create the events; BackendError when that fails."""
        self._events = [device.create_event() for _ in range(4)]

    def mark(self, moment: int, stream: DeviceStream) -> None:
        """Mark one of the moments, from 0 to 3."""
        stream.record(self._events[moment])

    def times(self) -> DeviceTimes:
        """Return the times between the moments; the stream is synchronised."""
        first, second, third, last = self._events
        return DeviceTimes(
            second.seconds_since(first), third.seconds_since(second), last.seconds_since(third)
        )

    def free(self) -> None:
        """Give the events back."""
        for event in self._events:
            event.free()
