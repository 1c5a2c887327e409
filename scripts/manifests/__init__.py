"""Checks of deploy/: overlays as kustomize builds them, their schemas, KubeRay's rules, and the Serve config."""
