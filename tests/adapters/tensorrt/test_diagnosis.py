"""What the doctor finds out about TensorRT."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from polygraphy import config
from polygraphy.adapters.tensorrt.describe import support as diagnosis
from polygraphy.adapters.tensorrt.describe.support import tensorrt_sections
from polygraphy.adapters.tensorrt.library import module as gpu
from polygraphy.adapters.tensorrt.library import module as module_in_use
from polygraphy.adapters.tensorrt.library.capabilities import FEATURES
from polygraphy.domain.environment import Section
from tests.support.tensorrt_names import named_module


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have no TensorRT installed; what tests put into ``sys.modules`` is."""
    monkeypatch.setattr(module_in_use._Choice, "module", None)
    monkeypatch.setattr(config, "USE_TENSORRT_RTX", False)
    for name in ("tensorrt", "tensorrt_rtx"):
        monkeypatch.setitem(sys.modules, name, None)
    return monkeypatch


def _modules() -> list[Section]:
    return tensorrt_sections()[1:]


def test_each_installed_module_is_shown_with_its_features(installed: pytest.MonkeyPatch) -> None:
    assert _modules() == []
    installed.setitem(sys.modules, "tensorrt", named_module("8.6.0"))
    installed.setitem(sys.modules, "tensorrt_rtx", named_module("rtx-1.7.1.116"))
    tensorrt, rtx = _modules()
    assert tensorrt.title == "TensorRT 8.6.0 (in use)"
    assert rtx.title == "TensorRT-RTX 1.7.1.116 (in use with POLYGRAPHY_USE_TENSORRT_RTX=1)"
    assert len(tensorrt.facts) == len(rtx.facts) == len(FEATURES)
    assert dict(tensorrt.facts)["INT8 calibrators"] == "yes"
    assert dict(rtx.facts)["INT8 calibrators"] == "no: TensorRT 8.6 to 10.x support it"
    assert dict(tensorrt.facts)["weight streaming"].startswith("no: TensorRT 10.0 and later")
    assert dict(rtx.facts)["weight streaming"] == "yes"


def test_the_module_in_use_comes_first(installed: pytest.MonkeyPatch) -> None:
    installed.setattr(config, "USE_TENSORRT_RTX", True)
    installed.setitem(sys.modules, "tensorrt", named_module("8.6.0"))
    installed.setitem(sys.modules, "tensorrt_rtx", named_module("rtx-1.7.1.116"))
    assert [section.title for section in _modules()] == [
        "TensorRT-RTX 1.7.1.116 (in use)",
        "TensorRT 8.6.0 (in use with POLYGRAPHY_USE_TENSORRT_RTX=0)",
    ]


def test_a_module_that_does_not_load_is_a_finding(installed: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError(f"{name}:\nlibnvinfer.so.10 is missing")

    installed.setitem(sys.modules, "tensorrt", named_module("8.6.0"))
    installed.setattr(diagnosis, "import_module", fail)
    [section] = _modules()
    assert section.facts == ()
    assert section.remarks == (
        "None: it does not load: ImportError: tensorrt: libnvinfer.so.10 is missing",
    )


class _Driver:
    """A CUDA driver with two devices."""

    count = 2

    def cuDriverGetVersion(self, version: object) -> int:
        version._obj.value = 13010  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetCount(self, count: object) -> int:
        count._obj.value = self.count  # type: ignore[attr-defined]
        return 0

    def cuDeviceGet(self, device: object, index: int) -> int:
        device._obj.value = index  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetName(self, name: object, size: int, device: object) -> int:
        name.value = f"GPU of kind {device.value}".encode()  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetAttribute(self, value: object, attribute: int, device: object) -> int:
        value._obj.value = {75: 8, 76: 9}[attribute]  # type: ignore[attr-defined]
        return 0


def test_gpus_are_those_that_the_driver_names(installed: pytest.MonkeyPatch) -> None:
    installed.setattr(gpu, "_driver", _Driver)
    [gpus] = tensorrt_sections()
    assert gpus.facts == (
        ("CUDA driver", "up to CUDA 13.1"),
        ("GPU 0", "GPU of kind 0 (8.9)"),
        ("GPU 1", "GPU of kind 1 (8.9)"),
    )
    assert gpus.remarks == ()
    installed.setattr(_Driver, "count", 0)
    [gpus] = tensorrt_sections()
    assert gpus.remarks == ("The CUDA driver found no GPU.",)
    installed.setattr(gpu, "_driver", lambda: None)
    [gpus] = tensorrt_sections()
    assert gpus.remarks == ("None: the CUDA driver is missing, or found no device.",)
