"""From scores to results. What all experiments share (the record, the registry, joined tables,
scored passes), then a folder for each. Takes scores, draws and floors; gives tables with clustered
intervals, and their charts."""
