"""Sources of pictures: folders, object stores, tables and archives."""
