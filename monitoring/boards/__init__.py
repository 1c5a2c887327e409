"""The dashboards, one module for each."""
