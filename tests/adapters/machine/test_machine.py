"""What is found out about this machine."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from polygraphy import config
from polygraphy.adapters import packages
from polygraphy.adapters.machine import machine_sections
from polygraphy.adapters.onnxruntime.environments import provider_sections
from polygraphy.adapters.packages import package_sections
from polygraphy.domain.catalog.compute import TF32_ENVIRONMENT


def test_devices_are_those_that_the_driver_names(tmp_path: Path) -> None:
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (tmp_path / "version").write_text("NVRM version: 570.1\nGCC version: 12\n")
    (tmp_path / "gpus" / "0000:01:00.0" / "information").write_text(
        "Model: \t NVIDIA H200\nIRQ: 3\n"
    )
    [devices, _] = machine_sections(tmp_path)
    assert devices.facts == (
        ("driver", "NVRM version: 570.1"),
        ("0000:01:00.0", "NVIDIA H200"),
    )
    [none, _] = machine_sections(tmp_path / "missing")
    assert none.facts == () and none.remarks == ("No NVIDIA driver was found.",)


def test_every_variable_that_is_read_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    read = set(re.findall(r'"(POLYGRAPHY_\w+)"', Path(config.__file__).read_text("utf-8")))
    monkeypatch.setenv("POLYGRAPHY_EXIT_CODES", "legacy")
    [_, variables] = machine_sections()
    assert read and {*read, TF32_ENVIRONMENT} == {name for name, _ in variables.facts}
    assert dict(variables.facts)["POLYGRAPHY_EXIT_CODES"] == "'legacy'"


def test_a_backend_that_is_missing_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def version(package: str) -> str:
        if package == "tensorrt":
            return "10.1"
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(packages, "_find_module", lambda module: None)
    [_, backends] = package_sections()
    assert dict(backends.facts)["TensorRT"] == "tensorrt 10.1"
    assert dict(backends.facts)["PyTorch"] == "not installed"
    assert "To install PyTorch: pip install torch" in backends.remarks
    assert not any(remark.startswith("TensorRT ") for remark in backends.remarks)


def test_a_module_without_metadata_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorrt").mkdir()
    (tmp_path / "tensorrt" / "__init__.py").write_text("raise AssertionError('imported')")
    (tmp_path / "tensorflow").mkdir()  # A folder of models, say.
    (tmp_path / "cuda" / "bindings").mkdir(parents=True)
    (tmp_path / "cuda" / "bindings" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in ("tensorrt", "tensorflow", "cuda", "cuda.bindings"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    [versions, backends] = package_sections()
    facts = dict(backends.facts)
    for module, folder in (("tensorrt", "tensorrt"), ("cuda.bindings", "cuda/bindings")):
        backend = {"tensorrt": "TensorRT", "cuda.bindings": "CUDA Python"}[module]
        assert facts[backend] == f"{module} in {tmp_path / folder}, without package metadata"
        assert not any(remark.startswith(backend) for remark in backends.remarks)
    assert facts["TensorFlow"] == "not installed"
    assert dict(versions.facts)["black"] == "missing"


def test_a_package_of_another_name_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorrt").mkdir()
    (tmp_path / "tensorrt" / "__init__.py").touch()
    info = tmp_path / "tensorrt_cu12-10.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: tensorrt-cu12\nVersion: 10.1\n")
    (info / "RECORD").write_text("tensorrt/__init__.py,,\n")
    (info / "top_level.txt").write_text("tensorrt\n")  # What Python 3.10 reads.
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    [_, backends] = package_sections()
    assert dict(backends.facts)["TensorRT"] == "tensorrt-cu12 10.1"


def test_a_package_that_does_not_load_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    [section] = provider_sections()
    assert section.remarks == ("None: ONNX Runtime is not installed.",)
    monkeypatch.delitem(sys.modules, "onnxruntime")
    (tmp_path / "onnxruntime.py").write_text("raise OSError('libcudart.so is missing')")
    monkeypatch.syspath_prepend(str(tmp_path))
    [section] = provider_sections()
    assert "does not load: OSError: libcudart.so is missing" in section.remarks[0]
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
