"""What is to be run: pure values, without torch and without I/O."""
