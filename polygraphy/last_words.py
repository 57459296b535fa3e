"""A line on standard error about a process that ends without a word: a library crashes, or the
system kills it.

After a crash, no Python code of the process runs. So a small shell, the witness, reads a pipe that
only this process holds open, and that Python's `faulthandler` writes to: it ends with a line if the
process ends first.

A parent that starts the command and waits for it would know the signal as well, but debuggers,
profilers, memory limits and signals of users would meet that parent instead of the process that
computes. With a witness, process ID, exit code and core dump stay those of the command. It costs
1 ms of the processor for each command.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from polygraphy.logger.sinks import escape_controls

__all__ = [
    "dismiss_witnesses",
    "last_document",
    "last_words",
    "note_inputs",
    "set_advice",
    "watch_program",
]

_LIBRARIES = (
    ("onnxruntime", "ONNX Runtime"),
    ("openvino", "OpenVINO"),
    ("tensorrt_rtx", "TensorRT-RTX"),
    ("tensorrt", "TensorRT"),
    ("tensorflow", "TensorFlow"),
    ("torch", "PyTorch"),
    ("onnx", "The onnx package"),
    ("numpy", "NumPy"),
)
"""Folders of libraries and of their adapters; the innermost frame in one of them crashed."""
_SIGNALS = (
    ("Segmentation*", "SIGSEGV: invalid memory access"),
    ("Floating*", "SIGFPE: arithmetic error, such as a division by zero"),
    ("Abort*", "SIGABRT: it ended the process itself"),
    ("Bus*", "SIGBUS: memory or a mapped file is missing"),
    ("Illegal*", "SIGILL: instruction that this processor does not have"),
)
"""What `faulthandler` calls signals, and what a line says."""

_MOST_INPUTS = 4
"""Inputs that the line names."""

_WITNESS = r"""trap '' HUP INT QUIT TERM
text= inputs= advice= fault= by= doing= ended= told= deaf=
tell() {
  [ -z "$told" ] || return
  told=1
  if [ -n "$ended" ] && [ -z "$fault" ]; then :
  elif [ -n "$text" ]; then printf '%s\n' "$text${fault:+ ($fault)}"
  elif [ -z "$fault" ] && [ -n "$deaf" ]; then
    printf '[!] The process crashed or was killed.%s\n' "$advice"
  elif [ -z "$fault" ]; then printf '[!] The process was killed%s. %s\n' \
    ', perhaps because memory ran out' "Use a smaller batch, or fewer outputs at a time."
  elif [ -n "$ended" ]; then printf '[!] %s crashed while the process ended (%s). %s\n' \
    "${by:-The process}" "$fault" "The output above is complete."
  else printf '[!] %s crashed%s (%s).%s\n' "${by:-The process}" "$doing" "$fault" "$advice"
  fi >&2
}
while IFS= read -r line; do
  if [ -z "$fault" ]; then case $line in
    text*) text=${line#text} text=${text# } ;;
    'inputs '*) inputs=${line#inputs } ;;
    'advice '*) advice=${line#advice } ;;
    begin) ended= inputs= advice= deaf=1 ;;
    hears) deaf= ;;
    end) ended=1 ;;
    'Fatal Python error: '*) case ${line#*: } in
SIGNALS
      *) fault=${line#*: } ;;
    esac ;;
  esac
  else case $line in
    *'/adapters/base/runner.py", line '*' in infer') [ -n "$by" ] &&
      doing=" while it ran the model${inputs:+ on $inputs}" ;;
    *'/adapters/base/runner.py", line '*' in activate') [ -n "$by" ] &&
      doing=' while it loaded the model' ;;
LIBRARIES
    'Extension modules'*|"Current thread's C stack"*) tell ;;
  esac
  fi
done
tell"""


_DOCUMENT_SCRIPT = r'''trap "" HUP INT QUIT TERM
while IFS= read -r line; do [ "$line" != end ] || exit 0; done
printf "%s" "$1"'''
"""Prints its argument, unless it reads that the process ends properly."""


def _script() -> str:
    """Return the program of the witness."""
    signals = "\n".join(f"      {pattern}) fault='{words}' ;;" for pattern, words in _SIGNALS)
    libraries = "\n".join(
        f"    *'/{folder}/'*', line '*) by=${{by:-'{name}'}} ;;" for folder, name in _LIBRARIES
    )
    return _WITNESS.replace("SIGNALS", signals).replace("LIBRARIES", libraries)


class _Witness:
    """A started shell that tells how this process ends."""

    def __init__(self, program: Sequence[str], stdout: int | None = None) -> None:
        """Start the shell with a program and its arguments; it may write to `stdout`.

        Raises:
            OSError: there is no shell, or standard error is closed.
        """
        if sys.stderr is None or not hasattr(os, "posix_spawn"):
            raise OSError
        reading, self.writing = os.pipe()
        actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, reading, 0)]
        if stdout is None:
            actions.append((os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0))
        else:
            actions.append((os.POSIX_SPAWN_DUP2, stdout, 1))
        words = ["/bin/sh", "-c", *program]
        try:
            try:  # A new session: Ctrl-C in a terminal reaches only this process.
                self._pid = os.posix_spawn(words[0], words, {}, file_actions=actions, setsid=True)
            except NotImplementedError:
                self._pid = os.posix_spawn(words[0], words, {}, file_actions=actions, setpgroup=0)
        except OSError:
            os.close(self.writing)
            raise
        finally:
            os.close(reading)
        os.set_blocking(self.writing, False)

    def note(self, kind: str, text: str = "") -> None:
        """Send a line to the shell, without waiting for it."""
        line = f"{kind} {escape_controls(text)}".rstrip().replace("\n", " ")
        with suppress(OSError):
            os.write(self.writing, line.encode("utf-8", "replace") + b"\n")

    def dismiss(self) -> None:
        """End the shell without a line."""
        self.note("text")
        self.note("end")
        with suppress(OSError):
            os.close(self.writing)
        with suppress(OSError):
            os.waitpid(self._pid, 0)


_program: list[_Witness] = []
"""The witness of the program that runs, or has run, in this process."""
_blocks: list[_Witness] = []
"""The witnesses of blocks, outside a program."""
_documents: list[_Witness] = []
"""The witnesses that write a document instead of a line."""
_hears_faults: list[bool] = []
"""One element if `faulthandler` writes to the witness of the program."""


@contextmanager
def watch_program() -> Iterator[None]:
    """Return a context in which a line tells why the process ends, if the program does not.

    Without a shell, Python writes where the process crashed.
    """
    try:
        if not _program:
            _program.append(_Witness([_script()]))
    except OSError:
        if sys.stderr is not None and not faulthandler.is_enabled():
            with suppress(OSError, ValueError):  # Standard error may have no descriptor.
                faulthandler.enable()
        yield
        return
    [witness] = _program
    witness.note("begin")
    if not faulthandler.is_enabled():  # Else a user wants to see more than a line.
        faulthandler.enable(witness.writing)
        _hears_faults.append(True)
    if _hears_faults:
        witness.note("hears")
    try:
        yield
    finally:
        witness.note("end")


def set_advice(text: str) -> None:
    """Set what a user can do if the program crashes from now on."""
    for witness in _program:
        witness.note("advice", f" {text}")


def note_inputs(feed: Mapping[str, Any]) -> None:
    """Set the data that a runner is about to run, for the line of a crash."""
    if not _program:
        return
    described = []
    for name, array in [*feed.items()][:_MOST_INPUTS]:
        shape = ",".join(map(str, getattr(array, "shape", ())))
        described.append(f"{name} {getattr(array, 'dtype', type(array).__name__)}[{shape}]")
    hidden = len(feed) - len(described)
    _program[0].note("inputs", ", ".join(described) + (f" and {hidden} more" if hidden else ""))


@contextmanager
def last_words(text: str) -> Iterator[None]:
    """Write a line to standard error if the process ends inside the block for any reason.

    Without a shell, nothing is written.
    """
    if _program:
        _program[0].note("text", text)
        try:
            yield
        finally:
            for witness in _program:  # None in a fork.
                witness.note("text")
        return
    started: list[_Witness] = []
    with suppress(OSError):
        started.append(_Witness([_script()]))
        started[0].note("text", text)
    _blocks.extend(started)
    try:
        yield
    finally:
        for witness in started:
            if witness in _blocks:  # Not in a fork, nor if it was dismissed.
                _blocks.remove(witness)
                witness.dismiss()


@contextmanager
def last_document(text: str, descriptor: int) -> Iterator[None]:
    """Write a text to an open file if the process ends inside the block for any reason.

    Without a shell, nothing is written.
    """
    started: list[_Witness] = []
    with suppress(OSError):
        started.append(_Witness([_DOCUMENT_SCRIPT, "sh", text], descriptor))
    _documents.extend(started)
    try:
        yield
    finally:
        for witness in started:
            if witness in _documents:  # Not in a fork.
                _documents.remove(witness)
                witness.dismiss()


def dismiss_witnesses() -> None:
    """End the processes that wait to print last words, because this process is about to end
    itself."""
    while _blocks:
        _blocks.pop().dismiss()
    for witness in _program:
        witness.note("text")
        witness.note("end")


def _leave_witnesses() -> None:
    """Forget the witnesses of the parent, in a forked process, whose end the parent notices."""
    if _hears_faults:
        faulthandler.disable()
        _hears_faults.clear()
    for witnesses in (_program, _blocks, _documents):
        while witnesses:
            with suppress(OSError):
                os.close(witnesses.pop().writing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_witnesses)
