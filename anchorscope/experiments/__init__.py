"""Experiments turn scores into tables with clustered intervals, and these tables into charts.

Each experiment has a folder. The modules here serve all experiments: records, the registry, joined
tables, and passes that are scored with the stored probes.
"""
