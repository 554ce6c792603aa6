"""What holds for every test: threads that wait do not spin, and NumPy has one.

Tests run side by side, so that a thread that spins takes a core from another test: a third of the processor's time went
that way. Answers do not depend on it. NumPy and OpenMP read these when they are loaded, tests' processes inherit them.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
