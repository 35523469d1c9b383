"""What schedules cost: bytes, operations, registers, occupancy and the time that follows, on GPUs and on CPU cores."""
