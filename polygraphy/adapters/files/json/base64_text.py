"""Base64, piece by piece: neither the bytes nor their text is ever in memory as a whole."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from typing import Protocol, Union

from polygraphy.adapters.files.json.json_codec import ContentError

# Chunks, of which the text has 64 KiB, stay in the processor's cache and below the size from which
# malloc maps fresh memory: larger ones take twice the time. Multiples of 3 and of 4.
_BYTES_PER_CHUNK = 48 * 1024
_CHARACTERS_PER_CHUNK = 64 * 1024

Piece = Union[bytes, memoryview]


class SlicedText(Protocol):
    """Base64 text of which slices can be had: a string, or a part of a file."""

    def __len__(self) -> int:
        """Return the number of characters."""

    def __getitem__(self, part: slice, /) -> str | bytes:
        """Return some of the characters."""


class Base64Text:
    """Stands in a document for the base64 text of bytes that are only fetched, once, to write it.

    Args:
        pieces: the bytes, in order.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._pieces = pieces

    def chunks(self) -> Iterator[bytes]:
        """Yield the text: ASCII that needs no escaping in JSON."""
        rest = b""
        for piece in self._pieces:
            start = 0
            if rest:  # Only whole groups of three bytes may be encoded apart from the others.
                start = -len(rest) % 3
                rest += piece[:start]
                if len(rest) % 3:
                    continue
                yield binascii.b2a_base64(rest, newline=False)
            stop = len(piece) - (len(piece) - start) % 3
            for first in range(start, stop, _BYTES_PER_CHUNK):
                chunk = piece[first : min(first + _BYTES_PER_CHUNK, stop)]
                yield binascii.b2a_base64(chunk, newline=False)
            rest = bytes(piece[stop:])
        if rest:
            yield binascii.b2a_base64(rest, newline=False)


def decoded_length(text: SlicedText) -> int:
    """Return how many bytes `text` stands for; ContentError when it cannot be base64."""
    if len(text) % 4:
        raise ContentError("base64 text ends in the middle of a group of four characters")
    return len(text) // 4 * 3 - _padding(text[max(len(text) - 2, 0) :])


def decoded_pieces(text: SlicedText, first: int = 0) -> Iterator[bytes]:
    """Yield the bytes that `text` stands for, from byte `first` on.

    Raises:
        ContentError: it is not base64.
    """
    skip = first % 3
    for start in range(first // 3 * 4, len(text), _CHARACTERS_PER_CHUNK):
        stop = min(start + _CHARACTERS_PER_CHUNK, len(text))
        characters = text[start:stop]
        padding = _padding(characters) if stop == len(text) else 0
        try:
            piece = binascii.a2b_base64(characters)
        except ValueError as error:
            raise ContentError(f"base64 text is damaged: {error}") from error
        # The decoder skips what is not in its alphabet; then too few bytes come out.
        if len(piece) != len(characters) // 4 * 3 - padding:
            raise ContentError("base64 text holds characters that do not belong there")
        yield piece[skip:] if skip else piece
        skip = 0


def _padding(characters: str | bytes) -> int:
    """Return the number of padding characters at the end, at most two."""
    end = characters[-2:]
    kept = end.rstrip("=") if isinstance(end, str) else end.rstrip(b"=")
    return len(end) - len(kept)
