"""Several settings and seeds: the sweep's configuration, its jobs on this machine or Slurm, and the selection."""
