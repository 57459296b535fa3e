"""Base classes of the loaders and runners of all adapters; loading and saving of bytes.

May use ports, the domain and `adapters.os`.
"""
