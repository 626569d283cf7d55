"""Experiments score passes of their own, and make tables with clustered intervals and pictures.

Each experiment has a folder. The modules here serve all experiments: records, the registry, passes
that are scored with the stored probes, their measurements as arrays, and results on flips.
"""
