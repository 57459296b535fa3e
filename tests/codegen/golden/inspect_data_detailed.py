#!/usr/bin/env python3
"""Show the contents of outputs_fp32.json and outputs.

polygraphy inspect data outputs_fp32.json outputs --all --show-values --histogram --statistics -n 2 --line-width 60
"""

from polygraphy import program
from polygraphy.inspect import inspect_data


def main() -> None:
    inspect_data(
        "outputs_fp32.json",
        "outputs",
        all_iterations=True,
        show_values=True,
        histogram=True,
        statistics=True,
        num_items=2,
        line_width=60,
    )


if __name__ == "__main__":
    program.run(main, banner=False)
