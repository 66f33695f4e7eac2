"""Real servers for tests: MongoDB, S3 (Ceph's RADOS gateway) and Redis, on loopback, as any user, without Docker."""
