#!/usr/bin/env python3
"""Draw identity.onnx.

polygraphy inspect model identity.onnx --save-visual page.html --show weights
"""

from polygraphy import program
from polygraphy.inspect import draw_model


def main() -> None:
    draw_model("identity.onnx", "page.html", weights=True)


if __name__ == "__main__":
    program.run(main, banner=False)
