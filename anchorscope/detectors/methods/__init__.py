"""What can be fitted to tell wrong answers: a module for each sort of method."""
