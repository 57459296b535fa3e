"""Base64 by pieces is what it is as a whole, and what is not base64 is noticed."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.files.json.json_codec import ContentError
from polygraphy.adapters.files.json.json_writer import Base64Text, base64_size, decode_pieces

CHUNK_BYTES = 48 * 1024


@given(st.lists(st.binary(max_size=10)), st.booleans())
def test_pieces_are_encoded_as_their_sum(pieces: list[bytes], as_views: bool) -> None:
    given_pieces = [memoryview(piece) for piece in pieces] if as_views else pieces
    assert b"".join(Base64Text(given_pieces).chunks()) == base64.b64encode(b"".join(pieces))


@pytest.mark.parametrize("size", [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES])
@pytest.mark.parametrize("ahead", [0, 1, 2, 128])
def test_chunks_are_cut_where_groups_end(size: int, ahead: int) -> None:
    content = bytes(index % 251 for index in range(size))
    chunks = list(Base64Text([content[:ahead], content[ahead:]]).chunks())
    assert b"".join(chunks) == base64.b64encode(content)
    assert all(len(chunk) % 4 == 0 for chunk in chunks)


@given(st.binary(max_size=200), st.integers(0, 200), st.booleans())
def test_decodes_from_any_byte(content: bytes, first: int, as_string: bool) -> None:
    encoded = base64.b64encode(content)
    text = encoded.decode() if as_string else encoded
    assert base64_size(text) == len(content)
    assert b"".join(decode_pieces(text, first)) == content[first:]


@pytest.mark.parametrize("first", [0, 1, 2, 128, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_long_text_is_decoded_in_pieces(first: int) -> None:
    content = bytes(index % 251 for index in range(4 * CHUNK_BYTES + 7))
    pieces = list(decode_pieces(base64.b64encode(content), first))
    assert b"".join(pieces) == content[first:]
    assert max(map(len, pieces)) <= CHUNK_BYTES


@given(st.binary(min_size=1, max_size=60), st.characters(max_codepoint=0x2FF), st.data())
def test_agrees_with_a_strict_decoder(content: bytes, character: str, data: st.DataObject) -> None:
    text = base64.b64encode(content).decode()
    position = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:position] + character + text[position + 1 :]
    try:
        expected = base64.b64decode(damaged, validate=True)
    except ValueError:
        with pytest.raises(ContentError, match="base64"):
            b"".join(decode_pieces(damaged))
    else:
        assert b"".join(decode_pieces(damaged)) == expected


@pytest.mark.parametrize("position", [0, 4, 65_535, 65_536, 70_000, 99_999])
@pytest.mark.parametrize("foreign", ["=", "-", " ", "\n", "\\"])
def test_a_foreign_character_is_noticed_in_every_chunk(position: int, foreign: str) -> None:
    text = "A" * 100_000
    with pytest.raises(ContentError, match="base64"):
        list(decode_pieces(text[:position] + foreign + text[position + 1 :] + "AAAA"))


@given(st.binary(min_size=1, max_size=60), st.integers(1, 3))
def test_a_cut_group_is_noticed(content: bytes, cut: int) -> None:
    with pytest.raises(ContentError, match="middle of a group"):
        base64_size(base64.b64encode(content)[:-cut])
