"""Find what an interrupted run or a failed job left behind, and go on from there.

what happened | who notices | what is done
--- | --- | ---
Ctrl-C | `resume.end_on_interrupt` | jobs end; the last line says how to continue
Snakemake was killed, its jobs run on | its lock, `resume.clear` | nothing starts until they end
the same, and its lock is gone | `products.refuse_held` | a new run is refused until they end
two runs start at once | `products.alone` in a job | the second job waits and repeats nothing
an input was deleted by another run | `products.lost_input` in a job | the job names the input
a job was killed, a machine went off | Snakemake, `make resume` | the job runs again
finished batches of such a job | `storage.partial` | the next job reads them
drafts of such a job | `storage.files.atomic` | the next job that writes the product removes them
a job is forced to run again | `products.drop_forced` | its finished batches are removed
a rerun failed, but later products exist | `products.lost` in a target | the product is asked for
a product was deleted by hand | the same | the same
the disk is full | `storage.errors.of_the_disk` | an error; products are whole or absent
the disk has no locks | `products.warn_without_locks` | a warning: other runs are not seen
Snakemake was killed on a cluster | `cluster.refuse_orphans` | `make resume` cancels its jobs
a run failed while it sent jobs | `cluster.cancel_orphans` | they are cancelled
SLURM lost or preempted a job | `cluster.completed` | the job counts as failed and is sent again
SLURM does not answer | `cluster` | a run waits for it; a new run is refused

Nothing else in the workflow looks for leftovers.
"""
