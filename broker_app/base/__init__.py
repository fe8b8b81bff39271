"""Parts that all others use: durations, wildcards, refusals, deadlines, files, tasks."""
