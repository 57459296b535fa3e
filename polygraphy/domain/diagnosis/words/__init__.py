"""Every sentence of a diagnosis: attempts, evidence, reasons, remedies, bug reports and errors.

The rest of the diagnosis measures, tries and proves; nothing else writes English.
"""
