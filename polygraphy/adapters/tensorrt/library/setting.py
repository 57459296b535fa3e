"""How messages name a setting: as the argument that a program gives, and as the flag of the command
line that gives it.
"""

from __future__ import annotations

_OTHER_FLAGS = {
    "flags": "--onnx-flags",
    "memory_pool_limits": "--pool-limit",
    "restricted": "--trt-safety-restricted",
}
"""Those that are not spelled like the argument."""


def flag_of(argument: str) -> str:
    """Return the flag that gives an argument."""
    return _OTHER_FLAGS.get(argument, f"--{argument.replace('_', '-')}")


def setting_of(argument: str, value: object = True) -> str:
    """Return a setting as its user would write it, such as ``use_dla=True (--use-dla)``.

    Args:
        argument: the name of an argument for which the command line has a flag.
        value: what it is given, as messages show it.
    """
    return f"{argument}={value} ({flag_of(argument)})"
