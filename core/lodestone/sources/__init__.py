"""Where pictures come from: folders, object stores, tables, archives."""
