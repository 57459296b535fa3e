"""What quantizing does to tensors, and which nodes must stay in float: schemes, losses, causes, the
rules of quantizers, metrics and the search. Uses the rooms of tensors and arithmetic.
"""
