vllm serve Qwen/Qwen3-0.6B --kv-transfer-config '{"kv_connector":"P2pNcclConnector","kv_role":"kv_producer"}'
