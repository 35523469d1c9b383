"""From a user's call to launches and back: arguments, classes of calls, prepared records, memory, output rules."""
