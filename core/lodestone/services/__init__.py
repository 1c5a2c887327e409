"""The application layer: one class a subject, one method a use case, asked with a request and a caller.

HTTP routes, commands and `LocalClient` are faces of these methods. Three rules hold for all of them:

- Every method takes the `Caller`. What the caller may see is decided in that method and nowhere else: what they do not see is
  answered as what does not exist, and the words of others are taken out (`limits`, `redaction`).
- A method is a coroutine if it waits for more than files and the catalog: for the engine, a model, the record of a query, the
  delivery of tags, or a change of the collections. All other methods block: a service calls them in a
  thread, a command directly.
- Every method raises `LodestoneError` for what went wrong on purpose; anything else is a defect.

`use_cases.make_services` makes all of them over a `HomeSession`: `ServingSession` in a service, `InProcessSession` in a
command.
"""
