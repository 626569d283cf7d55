"""The report of a run, and a cell of it in words. Takes finished tables and records; gives one HTML
page and the sentences that `show` prints."""
