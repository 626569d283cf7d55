"""Files that are written whole or not at all, with their records, errors and the log.

The package reads and writes products, records what each was made from, and keeps the finished
batches of an interrupted job. It also has the errors that the user can act on, and the progress in
the log. It needs no knowledge of models or probes.
"""
