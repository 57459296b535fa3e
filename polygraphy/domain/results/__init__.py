"""Results of runs: outputs by runner and iteration, and checks of one run.

May use `tensors`.
"""
