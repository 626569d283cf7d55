"""Pictures of detection."""
