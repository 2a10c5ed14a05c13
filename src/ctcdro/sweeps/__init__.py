"""Settings and seeds in, run folders and a table out: jobs on this machine or Slurm, and the selection on dev."""
