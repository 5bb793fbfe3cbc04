nvidia-smi --query-compute-apps=pid,used_memory --format=csv
nvidia-smi --query-gpu=uuid,compute_mode --format=csv
