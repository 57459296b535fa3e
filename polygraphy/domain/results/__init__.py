"""What runs gave: outputs by runner and iteration, and what is checked of one run alone.

May use `tensors`.
"""
