"""Hosting: the Serve application, the local Ray and the life of the process."""
