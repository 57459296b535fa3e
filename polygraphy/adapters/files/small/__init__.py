"""Small files of single commands: bytes, replays, hints, texts.

May use all rooms.
"""
