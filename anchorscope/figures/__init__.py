"""Shared parts of all pictures: style, panels, axes, captions, export and HTML page.

The input is a table. The output is a Vega-Lite specification, drawn as HTML, SVG, PDF and PNG.
"""
