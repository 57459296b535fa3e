"""What a program shows before the tables of a run: the model, the data, and who ran it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import OutputRows
    from polygraphy.domain.tensors.metadata import TensorMetadata

_LABEL = 9
_MOST_INPUTS = 4
_MOST_NAMES = 4


class RunHead:
    """Gathers what a run is about.

    Attributes:
        notes: what was assumed that the user may want to know.
        inputs: what the first runner was fed with; None before that.
        seed: what synthetic data were made from; None for other data.
        runners: in the order in which they were activated.
        times: seconds per iteration, by runner.
        files: where saved runs were read from, by position.
    """

    def __init__(self, model: str) -> None:
        """Start; the model may not be known."""
        self._model = model
        self.notes: list[str] = []
        self.inputs: TensorMetadata | None = None
        self.seed: int | None = None
        self.runners: list[str] = []
        self.times: dict[str, Sequence[float]] = {}
        self.files: dict[int, str] = {}

    def lines(self) -> list[str]:
        """Return what is shown."""
        lines = []
        if self._model:
            lines.append(f"{'Model':{_LABEL}}{self._model}")
        if self.inputs is not None:
            seed = "" if self.seed is None else f"seed {self.seed}: "
            lines.append(f"{'Inputs':{_LABEL}}{seed}{_inputs_words(self.inputs)}")
        for note in self.notes:
            lines += noted(note)
        times = [
            f"{name} {sum(taken) / len(taken) * 1000:.3g} ms"
            for name, taken in zip(self._short_names(), map(self.times.get, self.runners))
            if taken
        ]
        if times:
            lines.append(f"{'Runners':{_LABEL}}{'   '.join(times)} per iteration")
        return lines

    def names(self, table: OutputRows) -> tuple[str, str]:
        """Return the names of a pair of runs as people read them: files by their names."""
        from pathlib import Path

        from polygraphy.domain.results.runner_names import short_names

        plain = dict(zip(self.runners, self._short_names()))
        own = [plain.get(runner) or short_names([runner])[0] for runner in table.runners]
        first, second = (
            Path(self.files[at]).name if at in self.files else name
            for at, name in zip(table.positions, own)
        )
        if first == second:
            first, second = (
                f"{first} ({table.positions[0] + 1})",
                f"{second} ({table.positions[1] + 1})",
            )
        return first, second

    def _short_names(self) -> list[str]:
        from polygraphy.domain.results.runner_names import short_names

        return short_names(self.runners)


def noted(text: str) -> list[str]:
    """Return the lines of a note; none where a table says the same."""
    from polygraphy.adapters.console.screen import wrapped

    brief = " ".join(getattr(text, "brief", text).split())
    return wrapped(f"{'note':{_LABEL}}{brief}", _LABEL) if brief else []


def left_out_lines(names: Sequence[str]) -> list[str]:
    """Say which outputs of a pair were not compared, below its table."""
    from polygraphy.adapters.console.screen import wrapped
    from polygraphy.domain.tensors.naming import counted, one_line

    shown = ", ".join(map(one_line, names[:_MOST_NAMES]))
    more = ", ..." if len(names) > _MOST_NAMES else ""
    was = "was" if len(names) == 1 else "were"
    text = f"  {counted(len(names), 'output')} {was} not compared, because only one side has"
    return wrapped(f"{text} {'it' if len(names) == 1 else 'them'}: {shown}{more}", 4)


def _inputs_words(inputs: TensorMetadata) -> str:
    parts = [
        f"{name} {meta.dtype}[{','.join(map(str, meta.shape or ()))}]"
        for name, meta in inputs.items()
    ]
    return ", ".join(parts[:_MOST_INPUTS]) + (", ..." if len(parts) > _MOST_INPUTS else "")
