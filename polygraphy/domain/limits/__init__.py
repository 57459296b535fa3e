"""What differences are allowed: tolerances and thresholds, per output.

May use `tensors`.
"""
