"""The HTTP application: wiring, the outermost middleware and the OpenAPI document."""
