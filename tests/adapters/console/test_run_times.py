"""How times of inferences are summed up."""

from __future__ import annotations

import pytest

from polygraphy.adapters.console.log import LogConsole
from polygraphy.domain.results.results import DeviceTimes


def test_device_times_are_reported_part_by_part(capsys: pytest.CaptureFixture[str]) -> None:
    times = [DeviceTimes(9, 9, 9)] + [DeviceTimes(1e-3, n * 1e-3, 2e-3) for n in range(1, 102)]
    LogConsole().device_times_measured("trt", times)
    shown = capsys.readouterr().out
    assert "Times on the device after the first, in ms, over 101:" in shown
    assert "H2D     | mean=1, p50=1, p90=1, p99=1" in shown
    assert "compute | mean=51, p50=51, p90=91, p99=100" in shown
    assert "D2H     | mean=2, p50=2, p90=2, p99=2" in shown
    assert "total   | mean=54, p50=54, p90=94, p99=103" in shown


def test_a_single_inference_stands_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    LogConsole().device_times_measured("trt", [DeviceTimes(0.0, 0.25, 0.0)])
    shown = capsys.readouterr().out
    assert "Times on the device, in ms, over 1:" in shown
    assert "compute | mean=250, p50=250, p90=250, p99=250" in shown
