"""Telemetry: metrics, logs, traces and sampled state."""
