nvidia-smi -i 0 -c 0   # clear stale contexts
