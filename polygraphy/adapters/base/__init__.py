"""What every adapter's loaders and runners derive from, and how bytes are loaded and saved.

May use ports, the domain and `adapters.os`.
"""
