"""What becomes of the rendered program."""

from __future__ import annotations

from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class ScriptOptions(Options):
    """Program: the Python program that the command stands for."""

    gen_script: str | None = option(
        "--gen-script",
        "--gen",
        writes=True,
        help="Save the program instead of running it; - is standard output.",
    )
