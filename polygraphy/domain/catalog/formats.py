"""The formats of models: what they are called, whose they are, and how their files are named."""

from __future__ import annotations

from attrs import frozen


@frozen
class ModelFormat:
    """A format of model files.

    Attributes:
        name: its name for ``--model-type``.
        technology: whose it is: ``onnx``, ``tensorflow`` or ``tensorrt``; empty for one that
            nothing reads any more.
        extensions: the extensions of its files; none for models that are folders.
    """

    name: str
    technology: str
    extensions: tuple[str, ...] = ()


FORMATS = {
    model_format.name: model_format
    for model_format in (
        ModelFormat("frozen", "tensorflow", (".pb", ".graphdef")),
        ModelFormat("keras", "tensorflow", (".keras", ".h5", ".hdf5")),
        ModelFormat("saved-model", "tensorflow"),
        ModelFormat("ckpt", "tensorflow"),
        ModelFormat("onnx", "onnx", (".onnx",)),
        ModelFormat("engine", "tensorrt", (".engine", ".plan", ".trt")),
        ModelFormat("uff", "", (".uff",)),
        ModelFormat("trt-network-script", "tensorrt", (".py",)),
        ModelFormat("caffe", "", (".prototxt",)),
    )
}
"""All formats, by name."""


def formats_of(*technologies: str) -> tuple[str, ...]:
    """Return the names of the formats of technologies."""
    return tuple(
        model_format.name
        for model_format in FORMATS.values()
        if model_format.technology in technologies
    )


def extensions_of(name: str) -> tuple[str, ...]:
    """Return the file extensions of a format."""
    return FORMATS[name].extensions


def format_named(path: str) -> str | None:
    """Return the format that belongs to the extension of a file, in any case, or None.
    The result is None if there is none. The path may name a function of a script, as in
    ``model.py:load``."""
    script, _, function = path.rpartition(":")
    # False for a file named `a.py:b.onnx`.
    is_function = function.isidentifier() and script.lower().endswith(".py")
    lowered = (script if is_function else path).lower()
    return next(
        (
            model_format.name
            for model_format in FORMATS.values()
            if lowered.endswith(model_format.extensions)
        ),
        None,
    )
