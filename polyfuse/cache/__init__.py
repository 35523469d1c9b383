"""The disk cache: plans and object code that outlive the process."""
