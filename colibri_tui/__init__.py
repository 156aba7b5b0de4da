"""A terminal chat application for Mixture-of-Experts models larger than memory, with the experts in view."""
