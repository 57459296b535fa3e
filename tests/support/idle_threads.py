"""Creates sessions of ONNX Runtime with one thread, and lets further threads wait without using a
processor.

By default they look for work for a while when a session starts, runs and ends. Tests create
thousands of small sessions, in several processes: that took three quarters of the time of creating
a session, and starting threads a third of the rest.
"""

from __future__ import annotations

from typing import Any

__all__ = ["let_threads_sleep"]

_ENTRY = "session.intra_op.allow_spinning"


def let_threads_sleep() -> None:
    """Create all sessions with one thread, or with threads that sleep when idle.

    This holds for this process and its forks. A test can ask for more threads.
    """
    try:
        import onnxruntime
    except ImportError:
        return  # For example, on a machine that only tests TensorRT.
    create = onnxruntime.InferenceSession.__init__

    def create_with_sleeping_threads(
        self: Any, model: Any, sess_options: Any = None, *args: Any, **options: Any
    ) -> None:
        """Create a session with sleeping threads."""
        settings = onnxruntime.SessionOptions() if sess_options is None else sess_options
        try:
            settings.get_session_config_entry(_ENTRY)
        except RuntimeError:  # The setting does not exist.
            settings.add_session_config_entry(_ENTRY, "0")
        if settings.intra_op_num_threads == 0:  # Another number was chosen by a test.
            settings.intra_op_num_threads = 1
        create(self, model, settings, *args, **options)

    onnxruntime.InferenceSession.__init__ = create_with_sleeping_threads
