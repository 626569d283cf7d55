"""The command `anchorscope`: tools for use before and after a run of the workflow.

It prints to the terminal. It writes only the files that the user names, and `selftest.json`.
"""
