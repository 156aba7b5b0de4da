"""Where experts lie and what is learned about their use."""
