"""Settings and seeds in, run folders and a table out: jobs on this machine or Slurm, and the selection on dev.

config        the configuration, and the settings and runs that it describes
sweep         trains, selects and scores; the folder of a sweep
selection     the paper's rule
jobs          many jobs: order, progress, stopping
submission    one task as one job
slurm         jobs that Slurm lost
"""
