"""Signals that come while a test does something else."""

from __future__ import annotations

import os
import signal
import threading

__all__ = ["send_later"]


def send_later(seconds: float, number: int = signal.SIGINT) -> None:
    """Send this process a signal, ctrl-C unless another is named, when some time has passed."""
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()
