"""The report of a run, and the summary of a cell that `anchorscope show` prints.

It reads finished tables and records, and returns one HTML page or lines of text.
"""
