"""What a sweep is planned to do, and what comes of it. May use `report` of the domain, and what
that uses; opens no file and reads no clock.
"""
