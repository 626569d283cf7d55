"""Files that are written whole or not at all, with their records, errors and the log.

Holds the records of what a product was made from, finished batches of an unfinished job, errors
that the user can act on, and the log. Takes tables, tensors and settings. Gives files, records and
messages. Knows nothing of the science.
"""
