"""Models that were loaded, unloaded and named while a platform ran: a file that commands write and services follow."""
