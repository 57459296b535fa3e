"""Input data: generated, loaded, described.

May use `tensors`.
"""
