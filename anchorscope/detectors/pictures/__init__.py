"""Pictures of detection, and its verdict in words."""
