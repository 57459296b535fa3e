"""Models with states that a fault feeds back wrongly, and healthy ones, run step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from states import decoders, streams
from states.__main__ import first_wrong_step
from states.cases import ALONE, BESIDE, PLAIN, STREAMS, WRONG_BOTH_WAYS
from states.cases import Case as Stateful
from states.specs import SHIFT

from .case import Case, Culprit

CAUSES = ("state", "structure", "weight", "attribute")
STATES = ("decoder alone", "decoder beside", "stream alone", "stream beside")
_SWITCHED = {"merged", "cached encoder"}
"""Decoders whose prompt is another branch."""


def _draw_fault(rng: np.random.Generator, kind: str) -> Stateful:
    """Return a random fault of a kind, in a random model with random weights."""
    SHIFT.seed = int(rng.integers(2**20))
    correct: onnx.ModelProto | None
    if kind.startswith("stream"):
        faults = [name for name in STREAMS if "beside" in kind or name not in WRONG_BOTH_WAYS]
        fault = str(rng.choice(faults))
        host, nameless = str(rng.choice(STREAMS[fault])), bool(rng.random() < 0.5)
        model, wrong = streams.stream(host, fault, nameless)
        correct = streams.stream(host, nameless=nameless)[0] if "beside" in kind else None
        options = f"--steps {int(rng.integers(4, 9))}"
        return Stateful(f"{fault}, {host}", fault, model, correct, wrong, host, options)
    table = BESIDE if "beside" in kind else ALONE
    fault = str(rng.choice([name for name in table if "padding" not in name]))
    host = str(rng.choice(table[fault]))
    layers = PLAIN[host].layers if host in _SWITCHED else int(rng.integers(2, 5))
    spec = replace(PLAIN[host], layers=layers)
    model, wrong = decoders.decoder(spec, fault)
    correct = decoders.decoder(spec)[0] if "beside" in kind else None
    options = f"--steps {int(rng.integers(8, 12))}"
    return Stateful(f"{fault}, {host}", fault, model, correct, wrong, spec, options)


def stateful(place: Path, rng: np.random.Generator, kind: str) -> Iterator[Case]:
    """Write a model with a fault, and yield its case if a step shows the fault."""
    case = _draw_fault(rng, kind)
    if first_wrong_step(case) is None:
        return
    culprit = Culprit(tuple(sorted(case.wrong)), (), ("model",), CAUSES)
    yield _write_case(place, case, f"states: {kind}, {case.name}", (culprit,))


def healthy_states(place: Path, rng: np.random.Generator) -> Iterator[Case]:
    """Write a model with correct states, alone or with a reference, and yield its case."""
    SHIFT.seed = int(rng.integers(2**20))
    if rng.random() < 0.5:
        host = str(rng.choice(streams.KINDS))
        model, options = streams.stream(host)[0], "--steps 6"
    else:
        host = str(rng.choice([*PLAIN]))
        model, options = decoders.decoder(PLAIN[host])[0], "--steps 10"
    correct = model if rng.random() < 0.3 else None
    case = Stateful(host, "", model, correct, options=options)
    yield _write_case(place, case, f"healthy: states, {host}", ())


def _write_case(place: Path, case: Stateful, kind: str, culprits: tuple[Culprit, ...]) -> Case:
    """Write a case of a model with states to its folder, and return it."""
    place.mkdir(parents=True, exist_ok=True)
    onnx.save(case.model, place / "model.onnx")
    words = ["diagnose", "model.onnx", "--onnxrt", *case.options.split(), "--format", "json"]
    if case.reference is not None:
        onnx.save(case.reference, place / "reference.onnx")
        words[3:3] = ["--reference", "reference.onnx"]
    return Case(place.name, kind, "planted", "", tuple(words), culprits)
