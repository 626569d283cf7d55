"""Pictures of detection."""

CHARTS = {}
