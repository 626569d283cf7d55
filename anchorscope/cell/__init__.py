"""The tables of a cell, and the tables of cells joined for a figure."""
