"""Puts a model and the files of its weights in place of others, so that a process killed in
between leaves a whole pair.

Several files cannot be renamed at once. Where a file of weights is there already, the new weights
are first put beside it under a second name, and a model that reads them there takes the place of
the old one: from then on the pair is the new one, whatever becomes of the old weights. Then these
are replaced, and then the model by the one that names them. The second name is removed; if a kill
keeps it, the next save does that.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.storage.external import location_of
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx.storage.weights import all_tensors, is_external
from polygraphy.adapters.onnx.storage.writing import write_model
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.adapters.os.parts import is_abandoned, short_name
from polygraphy.adapters.os.paths import StagedFile, staged_file
from polygraphy.termination import undisturbed

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = mod.lazy_import("onnx")

_CLONE = 0x40049409  # FICLONE of Linux.
_CHUNK = 1 << 22
_SECOND_NAME = re.compile(r"(.+)\.[a-z0-9_]{8}\.new")


def with_former(files: Collection[Path]) -> set[Path]:
    """Return files of weights, and for each that has a second name what it is the weights of."""
    found = (file.with_name(match[1]) for file in files if (match := _is_second(file)))
    return {*files, *found}


def _is_second(file: Path) -> re.Match[str] | None:
    return _SECOND_NAME.fullmatch(file.name)


def replace_together(
    path: Path,
    bare: ModelProto,
    model: StagedFile,
    weights: Mapping[str, StagedFile],
    former: Collection[Path],
) -> None:
    """Put a model and its weights in their places.

    Args:
        path: the file of the model.
        bare: the model as it is written there.
        model: the file that takes that place.
        weights: the files of its weights, by what the model calls them.
        former: the files in which the model that is replaced keeps its weights.

    Raises:
        OSError: a file cannot be put in its place; the model that is there then is whole.
    """
    for staged in (*weights.values(), model):
        staged.finish()
    replaced = {name: each for name, each in weights.items() if each.target.exists()}
    fresh = [each for name, each in weights.items() if name not in replaced]
    if not replaced or model.part is None:
        with undisturbed():
            for staged in (*fresh, *replaced.values(), model):
                staged.place()
        return
    second: dict[str, Path] = {}
    try:
        for name, staged in replaced.items():
            second[name] = _second_name(path.parent / name, staged)
        with staged_file(path) as between:
            _write_naming(bare, {name: file.name for name, file in second.items()}, between)
            between.finish()
            with undisturbed():
                for staged in fresh:
                    staged.place()
                between.place()
                kept, second = second, {}  # The model needs them now.
                for staged in (*replaced.values(), model):
                    staged.place()
                second = kept
    finally:
        for file in second.values():
            with suppress(OSError):
                file.unlink()
    for file in former:
        if _is_second(file):
            with suppress(OSError):
                file.unlink()
    for staged in weights.values():
        _sweep(staged.target)


def _second_name(place: Path, staged: StagedFile) -> Path:
    """Put a copy of weights beside their place.

    It is no link unless there is no room for a copy: readers refuse weights with several links. It
    is not synced, since it is needed for no longer than two renames take.
    """
    assert staged.part is not None
    prefix = f"{short_name(place)}."
    descriptor, made = tempfile.mkstemp(dir=place.parent, prefix=prefix, suffix=".new")
    name = Path(made)
    try:
        with os.fdopen(descriptor, "wb") as copy, staged.part.open("rb") as source:
            if not _cloned(source, copy):
                shutil.copyfileobj(source, copy, _CHUNK)
        shutil.copymode(staged.part, name)
    except BaseException as error:
        name.unlink()
        if not isinstance(error, OSError):
            raise
        os.link(staged.part, name)
    return name


def _cloned(source: IO[bytes], copy: IO[bytes]) -> bool:
    """Let a file share the content of another, where the file system can."""
    try:
        import fcntl

        fcntl.ioctl(copy.fileno(), _CLONE, source.fileno())
    except (ImportError, OSError):
        return False
    return True


def _write_naming(bare: ModelProto, names: Mapping[str, str], staged: StagedFile) -> None:
    """Write a model that names other files of weights."""
    other: ModelProto = copy_of(bare)
    for tensor in all_tensors(other):
        if not is_external(tensor) or is_stored(tensor) or location_of(tensor) not in names:
            continue
        for entry in tensor.external_data:
            if entry.key == "location":
                folder = PurePosixPath(entry.value).parent
                entry.value = str(folder / names[entry.value])
    write_model(other, staged.stream)


def _sweep(target: Path) -> None:
    """Remove second names of weights that are not needed any more."""
    with suppress(OSError):
        for file in target.parent.iterdir():
            match = _is_second(file)
            if match and match[1] == short_name(target) and is_abandoned(file):
                file.unlink()
