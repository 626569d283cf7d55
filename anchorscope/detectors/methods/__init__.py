"""Methods that detect wrong answers, one module per kind."""
