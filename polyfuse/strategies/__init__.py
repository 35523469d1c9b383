"""Strategies propose places and tile sizes from access relations; they decide nothing about legality."""
