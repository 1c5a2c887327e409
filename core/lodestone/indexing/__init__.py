"""The index job, stage by stage, without Ray."""
