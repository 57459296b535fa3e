"""Precisions of layers, and INT8 calibration.

May use `library`.
"""
