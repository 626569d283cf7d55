"""The command line, in a clone of its own."""
