"""Steps that are launched one ahead: the Protocols between engine and runner."""
