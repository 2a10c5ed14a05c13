"""The command line. Each command parses its options, calls one library function, and prints where the result is."""
