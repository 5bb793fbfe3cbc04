"""Will this prefill side and that decode side work together? From configurations, before anything runs.

look at a description → `side.Side` → an engine's resolver (`vllm`, `bundled`) → rules (`contract`, `nixl`,
`reports`) → `verdict.PairVerdict` → a renderer. Everything between the first and the last arrow is pure.
"""
