"""What all adapters share, whatever their technology: the life of a loader and of a runner, paths
and atomic files.
"""
