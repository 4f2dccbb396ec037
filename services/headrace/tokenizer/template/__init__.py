"""Chat templates: facts read off their source, and messages in the form that they read."""
