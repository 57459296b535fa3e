"""Steps for quantized models: wrong parameters, nodes that must stay in float, other codes."""
