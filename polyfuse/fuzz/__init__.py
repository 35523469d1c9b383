"""Random programs against NumPy: ``python -m polyfuse.fuzz --seconds 60 --seed 1`` (docs/trust.md)."""
