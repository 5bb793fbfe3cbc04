"""Evidence in, findings out: collectors, parsers, facts, policy and checks. No terminal, no torch."""
