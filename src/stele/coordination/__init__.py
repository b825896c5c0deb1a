"""What the roles keep at the root of trust: sessions, the catalog, horizons and leases."""
