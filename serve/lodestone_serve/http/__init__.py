"""The HTTP application: wiring, problems, pages, streams and the OpenAPI document."""
