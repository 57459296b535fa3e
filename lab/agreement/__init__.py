"""Random models, faults and options: do run and diagnose agree, and do printed commands work?"""
