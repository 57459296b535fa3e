"""Networks that both exporters of the installed PyTorch export."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
import torch
from exports.programs import NETWORKS, Program, block, libraries, module_maker, normal
from torch import nn

KINDS = ("older", "dynamo")


def _encoder(layers: int) -> nn.Module:
    """Return transformer layers as wide as BERT, of 28 MB each."""
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu")
    encoder = nn.TransformerEncoder(layer, layers)
    for parameter in encoder.parameters():
        # All layers are copies of the first, so give each one different weights.
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return encoder


def _convolutions() -> nn.Module:
    """Return blocks of wide convolutions, of 19 MB each."""
    return nn.Sequential(nn.Conv2d(3, 512, 8, 8), *(block(512, 512) for _ in range(6)))


LARGE = [
    Program("encoder of 115 MB", module_maker(lambda: _encoder(4), normal(1, 12, 768))),
    Program("encoder of 340 MB", module_maker(lambda: _encoder(12), normal(1, 8, 768))),
    Program("cnn of 120 MB", module_maker(_convolutions, normal(1, 3, 64, 64))),
]


def programs(group: str) -> Iterable[Program]:
    """Return the programs of a group: `own`, `large`, or `public` for those of libraries."""
    return libraries() if group == "public" else LARGE if group == "large" else NETWORKS


def pairs(
    folder: Path, group: str = "own", only: str = ""
) -> Iterator[tuple[str, onnx.ModelProto, onnx.ModelProto, dict[str, Any]]]:
    """Yield each network's name, the model of one exporter, that of the other, and data.

    The names are those of the first; both directions are yielded. `only`: networks with this in
    their names.
    """
    logging.disable(logging.WARNING)
    for program in programs(group):
        if only not in program.name:
            continue
        try:
            exports = {kind: _export(program, kind, folder) for kind in KINDS}
        except Exception:  # Exporters can raise anything.
            continue
        _, args = program.make()
        for own_kind, other_kind in (KINDS, KINDS[::-1]):
            names = [value.name for value in exports[own_kind].graph.input]
            data = {name: tensor.numpy() for name, tensor in zip(names, args)}
            yield f"{program.name} {own_kind}", exports[own_kind], exports[other_kind], data


def _export(program: Program, kind: str, folder: Path) -> onnx.ModelProto:
    """Return the model that PyTorch exports from a program."""
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
