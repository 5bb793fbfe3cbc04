"""Evidence that our collector did not print: pasted text and the captures of other tools, turned into blocks."""
