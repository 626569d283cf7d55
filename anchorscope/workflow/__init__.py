"""Support for Snakemake's rules: job resources, SLURM, messages, and checks before a run.

The package takes the config and the DAG. It returns numbers and messages to the rules, and raises
errors before the first job.
"""
