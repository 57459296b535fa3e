"""Models that are split over several devices.

May use `graph` and `storage`.
"""
