"""Known-bad advice in text: runbooks, scripts, playbooks, unit files, Compose files. Text in, advice out; no terminal."""
