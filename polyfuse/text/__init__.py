"""Schedules as text: a printer, a parser, and the application of a text to a program."""
