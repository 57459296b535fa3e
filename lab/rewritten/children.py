"""Calls in a child process: tools, and backends that run what these make, may crash."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function in a forked process; None if it raises or crashes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "wb") as file:
                pickle.dump(function(*arguments), file)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        sent = file.read()
    os.waitpid(child, 0)
    try:
        return pickle.loads(sent)
    except (EOFError, pickle.UnpicklingError):
        return None
