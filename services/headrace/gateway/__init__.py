"""The gateway service: owns each request from accept to its one outcome."""
