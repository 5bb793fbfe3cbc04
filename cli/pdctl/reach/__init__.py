"""Runs one shell script on this host or on many nodes, each inside a deadline, and says why where it could not."""
