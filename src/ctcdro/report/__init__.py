"""What can be looked at: figures."""
