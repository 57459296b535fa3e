"""Arrays of other libraries: on a device, through DLPack, of PyTorch.

May use the domain.
"""
