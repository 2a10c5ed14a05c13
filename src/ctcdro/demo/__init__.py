"""The demo: synthetic speech, a sweep over three objectives, a table and a report."""
