nvidia-smi --query-compute-apps=pid,used_memory,compute_mode --format=csv
