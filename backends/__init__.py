"""Kernel IR to callables; imported as `polyfuse.backends`.  A backend knows kernel IR and targets and nothing above."""
