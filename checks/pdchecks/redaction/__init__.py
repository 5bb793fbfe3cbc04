"""Takes names, addresses and secrets out of evidence, the same way everywhere in a bundle, so that its topology stays."""
