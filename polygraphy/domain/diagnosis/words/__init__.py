"""Every sentence of a diagnosis: `changes`, `evidence`, `steps`, `reasons` and `remedies`.

The rest of the diagnosis measures, tries and proves; nothing else writes English.
"""
