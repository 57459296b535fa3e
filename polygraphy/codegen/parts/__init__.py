"""What programs of several commands share: a model, a backend, a comparison.

Uses no other room of codegen but the renderer.
"""
