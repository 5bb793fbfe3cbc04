mlnx_qos -i ens4f0np0 \
  --trust pcp
