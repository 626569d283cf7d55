"""Tables that evaluate the methods and measure what they read."""
