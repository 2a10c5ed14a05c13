"""The demo: synthetic speech, a sweep over four objectives, a table and a report."""
