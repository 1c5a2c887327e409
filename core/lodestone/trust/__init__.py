"""Trust in the spaces, learned from feedback: one weight per topic and space."""
