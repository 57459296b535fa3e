"""The command line: options as data, commands, help, exit codes.

It renders programs and imports no backend.

Rooms: `declare`, `shared`, `backends`, `commands`.
"""
