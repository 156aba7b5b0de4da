"""A terminal chat application for Mixture-of-Experts models larger than memory, with the experts in view."""

import os
from typing import Final

NAME: Final = "colibri-tui"
"""The program's, as one types it."""

# Textual repaints at most so often, and after one paint the next may be two periods away. At its usual 60 a second a
# letter that is typed just after something else moved would wait 33 ms. Textual reads this while it is imported.
os.environ.setdefault("TEXTUAL_FPS", "120")
