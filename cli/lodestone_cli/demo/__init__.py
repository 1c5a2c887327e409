"""The demonstration: pictures that come inside packages, thirty fixed questions, and what training changes."""
