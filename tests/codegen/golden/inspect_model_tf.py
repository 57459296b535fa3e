#!/usr/bin/env python3
"""Show the contents of folder.

polygraphy inspect model folder --model-type ckpt --ckpt name --freeze-graph --tf-outputs a b
"""

from polygraphy import program
from polygraphy.inspect import inspect_model


def main() -> None:
    inspect_model(
        "folder", model_type="ckpt", checkpoint="name", tf_outputs=["a", "b"], optimize_graph=True
    )


if __name__ == "__main__":
    program.run(main, banner=False)
