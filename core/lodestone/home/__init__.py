"""An opened home: its resources, its spaces and the address of its service."""
