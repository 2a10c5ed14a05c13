"""Several settings and seeds.

config        the configuration, and the settings and runs it stands for
sweep         train all runs, select, score; the folder of a sweep
selection     the paper's rule
jobs          runs as jobs in separate processes: order, progress, stopping
submission    one job, on this machine or on Slurm
slurm         jobs that Slurm lost
"""
