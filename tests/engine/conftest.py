"""Functions for workers, in a module that they can import."""

import sys
from pathlib import Path

# The workers are other processes: what they call must be importable there too.
sys.path.insert(0, str(Path(__file__).parent))
