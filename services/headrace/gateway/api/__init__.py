"""The APIs that clients speak: each parses a request and writes its answer, all ask the same pipeline."""
