"""The command `anchorscope`: tools for use before and after a run of the workflow.

It prints to the terminal, and writes the files that the user names, `selftest.json`, and downloads.
"""
