nvidia-smi -i 0 -c EXCLUSIVE_PROCESS
