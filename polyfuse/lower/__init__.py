"""From a proved schedule to kernel IR."""
