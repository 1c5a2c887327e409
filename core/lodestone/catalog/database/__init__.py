"""The database under the catalog: engine, migrations, locks, and statements that survive a restart of the server."""
