"""The commands that are about TensorRT alone; without this room, `listing` leaves them out.

May use the other rooms of commands.
"""
