"""What the caller's array library runs in place of kernels: functions by name, scatters, contractions."""
