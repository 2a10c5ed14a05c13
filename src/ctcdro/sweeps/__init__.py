"""Sweeps over settings and seeds: jobs on this machine or Slurm, selection on the development set, tables."""
