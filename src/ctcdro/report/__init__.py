"""What can be looked at: the page about runs, its figures and its tables."""
