"""Rules about which role may call which: roles and certificates, TLS of ports, the credential, permissions in NATS."""
