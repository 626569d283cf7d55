"""Faults injected into runs of a tiny workflow."""
