"""The report of a run, and the summary of a cell that `anchorscope show` prints.

The input is finished tables and their provenance. The output is an HTML page or lines of text.
"""
