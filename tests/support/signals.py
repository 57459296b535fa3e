"""Signals that come while a test does something else."""

from __future__ import annotations

import os
import signal
import threading

__all__ = ["send_later"]


def send_later(seconds: float, number: int = signal.SIGINT) -> None:
    """Send a signal, by default ctrl-C, to this process after some seconds."""
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()
