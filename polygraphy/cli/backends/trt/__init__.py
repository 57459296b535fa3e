"""TensorRT: options, their checks, and what they mean for a program.

May use `declare` and `shared`.
"""
