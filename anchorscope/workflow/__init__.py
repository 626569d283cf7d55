"""What only Snakemake's rules need: resources of a job, SLURM, messages, and the checks before a
run. Takes the config and the DAG; gives numbers and words to the rules, and errors before the
first job."""
