"""The guide engines: local models, remote services, example pictures and the learned prior."""
