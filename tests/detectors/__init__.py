"""The detectors, most of them on planted cells."""
