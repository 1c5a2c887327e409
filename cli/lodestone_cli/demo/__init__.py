"""Demonstration with pictures that come inside packages: thirty fixed questions, asked before and after training."""
