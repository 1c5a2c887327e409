"""Hosting: the local Ray and the life of the service's process."""
