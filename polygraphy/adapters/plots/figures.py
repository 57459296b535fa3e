"""Figures: made, saved and shown."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.os.paths import atomic_file
from polygraphy.domain.errors import FileError, MissingDependencyError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from matplotlib.figure import Figure


matplotlib = mod.lazy_import("matplotlib")

_UNSAFE = re.compile(r"[^\w.+-]+")
_LONGEST = 100
_WITHOUT_SCREEN = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}


def require_matplotlib() -> None:
    """Make sure that figures can be made; MissingDependencyError when not."""
    if not matplotlib.is_installed():
        install = matplotlib.install_command()
        raise MissingDependencyError(
            "Pictures are drawn with matplotlib, which is not installed."
            f" Install it with: {install}",
            module="matplotlib",
            install=install,
        )


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, which belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def file_name(kind: str, name: str, extension: str) -> str:
    """Return a file name that is safe on every system, whatever the name of a tensor is: two names
    never share one.
    """
    safe = _UNSAFE.sub("_", name)[:_LONGEST].strip(".")
    if safe != name:
        safe += f"-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{kind}_{safe}.{extension}"


def shortened(name: str, length: int = 48) -> str:
    """Return the name of a tensor without its middle, where it is long, and in one line."""
    line = " ".join(name.split())
    half = length // 2 - 1
    return line if len(line) <= length else f"{line[:half]}..{line[-half:]}"


def hand_over(figures: Sequence[tuple[str, Figure]], *, folder: str | None, show: bool) -> None:
    """Save figures under their file names, and show them.

    Raises:
        FileError: a figure cannot be saved.
    """
    for name, figure in figures:
        if folder is not None:
            save_figure(figure, Path(folder) / name)
    if show:
        _show([figure for _, figure in figures])


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to a file, whole or not at all; the extension of the path names the format.

    Raises:
        FileError: it cannot be written, or the format is not known.
    """
    drawn = io.BytesIO()
    extension = check_format(figure, path)
    # Without a date and random identifiers the same data make the same file.
    options: dict[str, Any] = {"metadata": {"Date": None}} if extension == "svg" else {"dpi": 150}
    with matplotlib.rc_context({"svg.hashsalt": "polygraphy"}):
        figure.savefig(drawn, format=extension, **options)
    with atomic_file(path) as stream:
        stream.write(drawn.getvalue())
    G_LOGGER.verbose(f"Saved {path}")


def check_format(figure: Figure, path: Path) -> str:
    """Return the format that the extension of a path names; FileError when it names none."""
    extension = path.suffix.removeprefix(".").lower()
    if extension not in figure.canvas.get_supported_filetypes():
        raise FileError(
            f"Could not save to {path}: {extension!r} is no format of pictures.",
            path=path,
            hint="Name a .png or .svg file.",
        )
    return extension


def _show(figures: Sequence[Figure]) -> None:
    from matplotlib import pyplot

    if str(matplotlib.get_backend()).lower() in _WITHOUT_SCREEN:
        G_LOGGER.warning("There is no screen to show pictures on; save them to a folder instead.")
        return
    for figure in figures:
        manager: Any = pyplot.figure().canvas.manager
        figure.set_canvas(manager.canvas)
        manager.canvas.figure = figure
    pyplot.show()
