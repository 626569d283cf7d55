"""One module per claim, see `claim.Claim`."""
