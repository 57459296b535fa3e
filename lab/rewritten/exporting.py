"""Networks that both exporters of the installed PyTorch export."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import torch
from exports.programs import NETWORKS, Program

KINDS = ("older", "dynamo")


def pairs(folder: Path) -> Iterator[tuple[str, onnx.ModelProto, onnx.ModelProto, dict[str, Any]]]:
    """Yield each network as one exporter writes it, as the other does, and data, by the names of
    the first; both ways.
    """
    logging.disable(logging.WARNING)
    for program in NETWORKS:
        try:
            made = {kind: _exported(program, kind, folder) for kind in KINDS}
        except Exception:  # Exporters raise anything.
            continue
        _, args = program.make()
        for own, other in (KINDS, KINDS[::-1]):
            names = [value.name for value in made[own].graph.input]
            data = {name: each.numpy() for name, each in zip(names, args)}
            yield f"{program.name} {own}", made[own], made[other], data


def _exported(program: Program, kind: str, folder: Path) -> onnx.ModelProto:
    module, args = program.make()
    path = folder / f"{program.name}-{kind}.onnx"
    options: dict[str, Any] = {"dynamo": kind == "dynamo", **program.options}
    if kind == "dynamo":
        options.update(external_data=False, verbose=False)
    else:
        options.update(opset_version=17 if program.name == "unet" else 14)
    names = {"input_names": [f"in{i}" for i in range(len(args))]}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, args, str(path), **options, **names)
    return onnx.load(str(path))
