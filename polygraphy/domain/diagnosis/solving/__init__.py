"""What a node or an output may have been computed with, solved from what is expected of it."""
