"""How good the methods are, and what they read."""
