"""pdctl: provision, diagnose and serve LLMs from separate prefill and decode nodes."""

__version__ = "0.1.0"
