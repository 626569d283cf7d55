"""The report of a run, and the summary of a cell that `anchorscope show` prints. Reads finished
tables and records; gives one HTML page, or lines of text."""
