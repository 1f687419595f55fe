"""Change data capture: the job, the procedures and the functions."""
