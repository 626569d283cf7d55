"""The command `anchorscope`: tools for use before and after a run of the workflow.

It takes a command line and prints. It changes only the files that it is asked to write.
"""
