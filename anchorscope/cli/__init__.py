"""The command `anchorscope`: what a person does around the workflow. Takes a command line; prints,
and changes nothing but the files that it is asked to write."""
