"""Rules of who may talk to whom: roles and certificates, TLS of ports, the credential, permissions in NATS."""
