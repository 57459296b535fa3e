#!/usr/bin/env python3
"""Draw a.onnx.

polygraphy inspect model a.onnx --visual --visual-port 0 --shape-inference --display-as trt
"""

from polygraphy import program
from polygraphy.inspect import draw_model


def main() -> None:
    draw_model("a.onnx", port=0, display_as="trt")


if __name__ == "__main__":
    program.run(main, banner=False)
