"""One module or folder per command; `listing` names them all.

May use every other room of the command line.
"""
