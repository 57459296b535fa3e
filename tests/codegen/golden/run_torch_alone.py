#!/usr/bin/env python3
"""Run model.pt2 in PyTorch.

polygraphy run --torch model.pt2 --mark-all
"""

from polygraphy import program
from polygraphy.backend.pyt import PytRunner, TorchFromPath
from polygraphy.comparator import Comparator
from polygraphy.constants import MARK_ALL


def main() -> None:
    runners = [PytRunner(TorchFromPath("model.pt2"), output_names=MARK_ALL)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
