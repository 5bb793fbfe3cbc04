"""The KV contract and its wire format: values, frames and a state machine. No sockets, no files, no torch."""
