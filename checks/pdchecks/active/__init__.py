"""Active tests between nodes: which pairs, when, by which commands. Pure; pdctl runs them."""
