"""How long a test waits for another process: against hangs, not for speed."""

HANG = 3600  # seconds by the clock; a busy machine may be a hundred times slower than a quiet one
