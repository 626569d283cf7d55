"""The command `anchorscope`: tools for use before and after a run of the workflow.

It prints to the terminal. It writes `selftest.json`, downloaded files, and files the user names.
"""
