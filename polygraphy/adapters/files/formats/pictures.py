"""Pictures as input data, read with Pillow, and what ``torch.save`` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.arrays.foreign import host_array
from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.domain.errors import DamagedFileError, MissingDependencyError
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER, LogMode

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
_TENSORS = (".pt", ".pth")
_DEEP = ("I;16", "I;16B", "I;16L", "I")
"""Modes of Pillow with 16 bits in an element."""


def holds_pictures(source: str | Path) -> bool:
    """Return whether a path is a picture or tensor file, or a folder of pictures."""
    return sample_files(source) is not None


def sample_files(source: str | Path) -> list[str] | None:
    """Return the files that contain one iteration each; None if there are none. See the port."""
    path = Path(source)
    if not path.is_dir():
        return [str(source)] if path.suffix.lower() in (*_PICTURES, *_TENSORS) else None
    images = _images_in(path)
    if not images:
        images = [file for path in _classes_in(path) for file in _images_in(path)]
    return [str(file) for file in images] or None


def class_folders(source: str | Path) -> dict[str, int]:
    """Return the number of images in each class folder; see the port."""
    path = Path(source)
    if not path.is_dir() or _images_in(path):
        return {}
    return {entry.name: len(_images_in(entry)) for entry in _classes_in(path)}


def _classes_in(folder: Path) -> list[Path]:
    """Return the class folders in a folder, without those of tools such as `.git` or
    `__pycache__`."""
    folders = (entry for entry in folder.iterdir() if entry.is_dir())
    return sorted(folder for folder in folders if not folder.name.startswith((".", "__")))


def _images_in(folder: Path) -> list[Path]:
    """Return the image files of a folder, sorted."""
    return sorted(entry for entry in folder.iterdir() if entry.suffix.lower() in _PICTURES)


def iterate_pictures(
    source: str | Path, size: tuple[int, int] | None, is_gray: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path of each image, and its array by name."""
    folder = Path(source)
    classes = _classes_in(folder) if folder.is_dir() and _images_in(folder) else []
    unused = [folder.name for folder in classes if _images_in(folder)]
    if unused:
        G_LOGGER.warning(
            f"{source}: only the images directly in this folder are used, not those in"
            f" {count_text(len(unused), 'subfolder')}, such as {unused[0]!r}."
            " If the subfolders are classes, move the other images to a different folder.",
            mode=LogMode.ONCE,
        )
    for name in sample_files(source) or ():
        if Path(name).suffix.lower() in _TENSORS:
            yield name, _read_tensors(Path(name))
        else:
            yield name, {"image": _picture(Path(name), size, "L" if is_gray else "RGB")}


def _picture(file: Path, size: tuple[int, int] | None, mode: str) -> np.ndarray[Any, Any]:
    """Return an image file as an array, upright, in a mode of Pillow (RGB or gray)."""
    image, ops = _import_required("PIL.Image", "pillow"), _import_required("PIL.ImageOps", "pillow")
    with translate_os_errors(file, "read"):
        content = file.open("rb")
    with content:
        try:
            with image.open(content) as opened:
                upright = ops.exif_transpose(opened)
                upright = _convert_mode(upright, mode, image)
                if size is not None:
                    upright = upright.resize(size, image.Resampling.BILINEAR)
                array = np.asarray(upright)
                return array if array.ndim == 3 else array[:, :, np.newaxis]
        except Exception as error:  # Each image format raises its own errors.
            is_unknown = isinstance(error, image.UnidentifiedImageError)
            why = "its contents are not an image" if is_unknown else " ".join(str(error).split())
            raise DamagedFileError(
                f"Could not read the image {file}: {why or 'damaged'}.",
                path=file,
                hint="Supported image formats: " + ", ".join(_PICTURES) + ".",
            ) from error


def _convert_mode(picture: Any, mode: str, image: Any) -> Any:
    """Return a picture in a mode of Pillow; pictures of 16 bits are scaled."""
    if picture.mode == mode:
        return picture
    name = "gray" if mode == "L" else mode
    text = f"Images of mode {picture.mode} are converted to 8-bit {name}."
    G_LOGGER.log(text, G_LOGGER.WARNING, mode=LogMode.ONCE)
    if picture.mode in _DEEP:
        narrow = (np.asarray(picture).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8)
        picture = image.fromarray(narrow)
    return picture.convert(mode)


def _read_tensors(file: Path) -> dict[str, Any]:
    """Return the tensor of a file, or several by name."""
    torch = _import_required("torch", "torch")
    with translate_os_errors(file, "read"):
        try:
            content = torch.load(str(file), weights_only=True, map_location="cpu")
            named = content if isinstance(content, Mapping) else {file.stem: content}
            return {str(name): host_array(tensor) for name, tensor in named.items()}
        except OSError:
            raise
        except Exception as error:  # pickle, zipfile and torch raise their own errors.
            raise DamagedFileError(
                f"Could not read {file}: it is damaged, or contains objects other than tensors.",
                path=file,
                hint="Save a tensor, or a dictionary from input names to tensors.",
            ) from error


def _import_required(module: str, package: str) -> Any:
    """Return a module; raise MissingDependencyError with the command that installs its package."""
    try:
        return import_module(module)
    except ImportError as error:
        install = f"python -m pip install {package}"
        raise MissingDependencyError(
            f"Reading this file requires {package}, which is not installed. Install it with:"
            f" {install}",
            module=package,
            install=install,
        ) from error
