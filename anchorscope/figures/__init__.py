"""What all pictures share: style, panels, axes, captions, export and the page around a figure.
Takes a table; gives Vega-Lite specifications, HTML, SVG, PDF and PNG."""
