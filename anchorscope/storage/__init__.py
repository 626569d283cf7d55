"""Products as files: reading, writing, and the records of what each was made from.

A file is written whole or not at all. The finished batches of an interrupted job are kept. The
package also defines the errors that a user can correct, and writes progress to the log. It needs no
knowledge of models or probes.
"""
