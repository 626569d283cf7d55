"""Experiments: tables with clustered intervals, and their charts, from scores, draws and floors.

The modules here are shared by all experiments: record, registry, joined tables, scored passes. Each
experiment has a folder.
"""
