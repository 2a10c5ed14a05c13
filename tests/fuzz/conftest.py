"""Makes `hostile` known to the tests beside it."""
