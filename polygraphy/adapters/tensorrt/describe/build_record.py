"""The build record of an engine, as JSON beside the plan: ``model.engine.build.json``.

A plan runs on one kind of GPU, in one version of TensorRT, and contains the model as it was at the
build. The plan itself reveals this only by failing, or never.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from attrs import asdict, evolve, field, fields_dict, frozen

from polygraphy.adapters.os.paths import atomic_file
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import gpu_name, trt
from polygraphy.logger import G_LOGGER

_CHUNK = 1 << 22


@frozen
class ModelFile:
    """The state of a model file when an engine was built from it.

    Attributes:
        path: its absolute path at build time.
        size: in bytes.
        modified: in nanoseconds since 1970.
        sha256: the digest of its content, without external weights.
    """

    path: str
    size: int
    modified: int
    sha256: str

    @staticmethod
    def of(path: str) -> ModelFile:
        """Return the record of a model file as it is now."""
        status = Path(path).stat()
        return ModelFile(
            str(Path(path).absolute()), status.st_size, status.st_mtime_ns, _sha256(path)
        )

    def has_changed(self) -> bool:
        """Return whether the file differs from what was recorded; False if it no longer exists."""
        try:
            status = Path(self.path).stat()
            if status.st_size == self.size and status.st_mtime_ns == self.modified:
                return False
            return _sha256(self.path) != self.sha256
        except OSError:
            return False


def _as_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple."""
    return tuple(names)  # JSON returns lists.


def _as_texts(saved: Mapping[str, str]) -> dict[str, str]:
    """Return a saved mapping with keys and values as text."""
    return {str(name): str(text) for name, text in dict(saved).items()}


@frozen
class BuildRecord:
    """The settings, versions and model of an engine's build.

    Attributes:
        library: ``TensorRT`` or ``TensorRT-RTX``.
        version: its version.
        gpu: name and compute capability of the GPU; empty without one.
        flags: the builder flags that were on.
        precision: the type that the model was cast to; empty if it was not cast.
        hardware_compatibility: the `HardwareCompatibilityLevel`.
        model: the file that it was built from; None if it was not built from a file.
        plan_size: the size of the plan, in bytes.
        compute_dtypes: by output, the least precise data type in its computation.
    """

    library: str
    version: str
    gpu: str = ""
    flags: tuple[str, ...] = field(default=(), converter=_as_names)
    precision: str = ""
    hardware_compatibility: str = "NONE"
    model: ModelFile | None = None
    plan_size: int = 0
    compute_dtypes: Mapping[str, str] = field(factory=dict, converter=_as_texts)


_records: WeakKeyDictionary[Any, BuildRecord] = WeakKeyDictionary()


def record_build(config: Any, *, model: str, precision: str, plan_size: int) -> BuildRecord:
    """Return the record of the build that just finished: settings, versions, model file and plan
    size.
    """
    caps = capabilities()
    return BuildRecord(
        library=caps.name,
        version=caps.version,
        gpu=gpu_name(),
        flags=_flags_of(config),
        precision=precision,
        hardware_compatibility=_compatibility_of(config),
        model=ModelFile.of(model) if model and Path(model).is_file() else None,
        plan_size=plan_size,
    )


def remember_record(result: Any, record: BuildRecord) -> None:
    """Attach a build record to an engine or a plan in memory, for its lifetime."""
    with suppress(TypeError):  # Some objects, such as bytes, do not support weak references.
        _records[result] = record


def record_of(result: Any) -> BuildRecord | None:
    """Return the build record of an engine or plan in memory, or None.
    The result is None if this process did not build it.
    """
    try:
        return _records.get(result)
    except TypeError:
        return None


def record_path(plan: str | Path) -> Path:
    """Return the path of the record of a plan."""
    return Path(f"{plan}.build.json")


def save_record(plan: str | Path, record: BuildRecord | None, plan_size: int) -> None:
    """Write a record next to a plan; None removes the record of an earlier plan."""
    path = record_path(plan)
    if record is None:
        path.unlink(missing_ok=True)
        return
    with atomic_file(path, "w") as stream:
        json.dump(asdict(evolve(record, plan_size=plan_size)), stream, indent=2)
        stream.write("\n")


def check_record(plan: str | Path) -> BuildRecord | None:
    """Return the build record of a plan, after warnings about other versions or a changed model.
    The result is None if there is no record of this plan.

    Returns:
        The record, if it belongs to the plan.
    """
    record = _load_record(record_path(plan))
    if record is None or record.plan_size != Path(plan).stat().st_size:
        return None
    for difference in _difference_sentences(record):
        G_LOGGER.warning(f"Engine {plan}: {difference}")
    return record


def _difference_sentences(record: BuildRecord) -> Iterable[str]:
    """Yield one sentence for each setting of a build record that differs from this machine."""
    caps = capabilities()
    text = f"{caps.name} {caps.version}"
    built = f"{record.library} {record.version}"
    if built != text and "VERSION_COMPATIBLE" not in record.flags:
        yield f"it was built with {built}, but this is {text}, so it may not load. Build it again."
    gpu = gpu_name()
    if record.gpu and gpu and record.gpu != gpu and record.hardware_compatibility == "NONE":
        yield f"it was built for {record.gpu}, but this is {gpu}. Build it again."
    if record.model is not None and record.model.has_changed():
        yield f"the model {record.model.path} changed after the build. Build it again."


def _load_record(path: Path) -> BuildRecord | None:
    """Return the record in a file; None if there is none, or it is invalid."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        record = {name: content[name] for name in fields_dict(BuildRecord) if name in content}
        if record.get("model") is not None:
            record["model"] = ModelFile(**record["model"])
        return BuildRecord(**record)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if not isinstance(error, FileNotFoundError):
            G_LOGGER.verbose(f"The build record {path} is ignored: {error}")
        return None


def _flags_of(config: Any) -> tuple[str, ...]:
    """Return the names of the builder flags that are set in a configuration."""
    members = trt.BuilderFlag.__members__
    return tuple(sorted(name for name, flag in members.items() if config.get_flag(flag)))


def _compatibility_of(config: Any) -> str:
    """Return the hardware compatibility level of a configuration, by name."""
    if capabilities().has("compute_capability"):  # TensorRT-RTX logs an error for this call.
        return "NONE"
    return str(config.hardware_compatibility_level.name)


def _sha256(path: str) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
