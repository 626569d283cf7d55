"""From scores to results: ΔP and its controls (knockout), and the same answer behind another
question (interchange), each as a table and a figure. Takes scores, draws and floors; gives
tables with clustered intervals, and their charts."""
