"""How long the parts of an inference take on a device."""

from __future__ import annotations

from attrs import frozen


@frozen
class DeviceTimes:
    """How long one inference took, in seconds, as measured by the device.

    Attributes:
        to_device: copies of inputs.
        compute: the model.
        to_host: copies of outputs.
    """

    to_device: float
    compute: float
    to_host: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.to_device + self.compute + self.to_host
