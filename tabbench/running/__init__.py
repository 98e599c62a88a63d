"""How an experiment is run: the driver, its studies, and what happens inside a job."""
